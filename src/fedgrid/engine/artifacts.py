"""What a study keeps of its cells beside their results, on request (`artifacts:`): one table for each kind.

    representations  z of every client's test images, in the partition's order, under the model that a client uses:
                     client, label, representation
    cooperation      a method's matrices between clients after every evaluated round, such as FedSaC's weights,
                     similarity and complementarity: round, matrix, client, other, value
    clusters         the groups that a method has found among clients or shared vectors: client or label, cluster,
                     vector

A table of a method that has nothing of a kind is empty. Representations and clusters are of the last round's state.
"""

from collections.abc import Collection, Mapping

import numpy as np
import pyarrow as pa
from torch import Tensor

from fedgrid.engine.federation import Federation
from fedgrid.engine.method import Method
from fedgrid.engine.modalities import apart, views
from fedgrid.engine.progress import Progress
from fedgrid.engine.simulation import Simulation
from fedgrid.engine.state import State
from fedgrid.engine.turns import everyone

VECTOR = pa.list_(pa.float32())


def tables(kinds: Collection[str], method: Method, simulation: Simulation, progress: Progress) -> dict[str, pa.Table]:
    """The tables of these kinds of a cell after its last round."""
    method, state = apart(method, simulation), progress.state
    fed = everyone(simulation, progress.rounds, state)
    made = {
        "representations": lambda: _representations(method, fed),
        "cooperation": lambda: _cooperation(progress.matrices or []),
        "clusters": lambda: _clusters(method, state),
    }
    return {kind: made[kind]() for kind in kinds}


def _representations(method: Method, fed: Federation) -> pa.Table:
    found: dict[int, tuple[Tensor, Tensor]] = {}
    for own, part, *_ in views(method, fed, None, None):
        theta = own.used(part, part.state)
        assert theta is not None  # every method has a model that clients use
        number, pairs = part.simulation.data.number, part.representations(theta, images="test")
        found |= {number(i): pair for i, pair in enumerate(pairs)}
    found = dict(sorted(found.items()))
    columns = {
        "client": pa.array([i for i, (_, y) in found.items() for _ in y], pa.int32()),
        "label": pa.array([label for _, y in found.values() for label in y.tolist()], pa.int16()),
        "representation": pa.array([vector for z, _ in found.values() for vector in _rows(z)], VECTOR),
    }
    return pa.table(columns)


def _cooperation(matrices: list[tuple[int, str, Tensor]]) -> pa.Table:
    places = [matrix.new_ones(matrix.shape).nonzero().numpy() for *_, matrix in matrices]
    client, other = np.concatenate([np.empty((0, 2), int), *places]).T
    columns = {
        "round": pa.array([round_ for round_, _, matrix in matrices for _ in range(matrix.numel())], pa.int32()),
        "matrix": pa.array(
            [name for _, name, matrix in matrices for _ in range(matrix.numel())], pa.string()
        ).dictionary_encode(),
        "client": pa.array(client, pa.int32()),
        "other": pa.array(other, pa.int32()),
        "value": pa.array([value for *_, matrix in matrices for value in matrix.flatten().tolist()], pa.float64()),
    }
    return pa.table(columns)


def _clusters(method: Method, s: State) -> pa.Table:
    found = method.clusters(s)
    kinds = {"client": pa.int32(), "label": pa.int16(), "cluster": pa.int32()}
    rows = len(found.get("cluster", ()))
    columns = {name: pa.array(_listed(found, name, rows), kind) for name, kind in kinds.items()}
    vectors = _rows(found["vector"]) if "vector" in found else [None] * rows
    return pa.table(columns | {"vector": pa.array(vectors, VECTOR)})


def _listed(found: Mapping[str, Tensor], name: str, rows: int) -> list[int | None]:
    return found[name].tolist() if name in found else [None] * rows


def _rows(vectors: Tensor) -> list[np.ndarray]:
    return list(vectors.float().cpu().numpy())
