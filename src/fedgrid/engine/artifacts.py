"""Artifacts: files that a study keeps beside its cells' results on request, one for each kind.

Tables are

    representations  z of every client's test images, in the partition's order, under the model that a client uses:
                     client, label, representation
    cooperation      a method's matrices between clients after every evaluated round, such as FedSaC's weights,
                     similarity and complementarity: round, matrix, client, other, value
    clusters         the groups that a method has found among clients or shared vectors: client or label, cluster,
                     vector
    predictions      what each model of the last round says of each test image of its client, at each point of a round:
                     point, client, image (its number in the data set), label, predicted, probability (of `predicted`)

A table of a method that has nothing of a kind is empty. Representations and clusters are of the last round's state.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import islice

import numpy as np
import pyarrow as pa
from torch import Tensor

from fedgrid.data.common.columns import column
from fedgrid.engine.federation.federation import Federation
from fedgrid.engine.federation.method import Method
from fedgrid.engine.federation.modalities import apart, views
from fedgrid.engine.federation.participation import in_parts
from fedgrid.engine.federation.simulation import Simulation
from fedgrid.engine.final_models import FinalModels, LastRound, final_models
from fedgrid.engine.local.context import Batch, LossContext
from fedgrid.engine.state.checkpoint import Progress
from fedgrid.engine.state.state import State
from fedgrid.tree import Tree

VECTOR = pa.list_(pa.float32())
NAMES = pa.dictionary(pa.int32(), pa.string())
SCHEMAS = {
    "representations": pa.schema({"client": pa.int32(), "label": pa.int16(), "representation": VECTOR}),
    "cooperation": pa.schema(
        {"round": pa.int32(), "matrix": NAMES, "client": pa.int32(), "other": pa.int32(), "value": pa.float64()}
    ),
    "clusters": pa.schema({"client": pa.int32(), "label": pa.int16(), "cluster": pa.int32(), "vector": VECTOR}),
    "predictions": pa.schema(
        {
            "point": NAMES,
            "client": pa.int32(),
            "image": pa.int32(),
            "label": pa.int16(),
            "predicted": pa.int16(),
            "probability": pa.float32(),
        }
    ),
}
OF_AN_IMAGE = {name: SCHEMAS["predictions"].field(name).type for name in ("label", "predicted", "probability")}
ROWS_TOGETHER = 2**20
"Rows of the table of cooperation that are made at a time, or what one client has of all others."


def tables(
    kinds: Collection[str],
    method: Method,
    simulation: Simulation,
    progress: Progress,
    last: LastRound | None = None,
) -> dict[str, pa.RecordBatchReader]:
    """The tables of these kinds of a cell after its `last` round, in parts that are made when they are read."""
    method = apart(method, simulation)
    parts = {
        "predictions": map(_predicted, final_models(method, simulation, progress, last)),
        "representations": _representations(method, simulation, progress),
        "cooperation": _cooperation(progress.matrices or []),
        "clusters": _clusters(method, State(progress.population.server)),
    }
    return {kind: pa.RecordBatchReader.from_batches(SCHEMAS[kind], parts[kind]) for kind in kinds if kind in SCHEMAS}


def _representations(method: Method, simulation: Simulation, progress: Progress) -> Iterator[pa.RecordBatch]:
    everyone = np.arange(simulation.data.clients)
    for part in in_parts(simulation, progress.rounds, everyone, progress.population):
        yield _represented(method, part)


def _represented(method: Method, fed: Federation) -> pa.RecordBatch:
    pairs: dict[int, tuple[Tensor, Tensor]] = {}
    for view_method, part, *_ in views(method, fed, None, None):
        theta = view_method.used(part, part.state)
        assert theta is not None  # every method has a model that clients use
        numbers = map(part.simulation.data.number, part.numbers)
        pairs |= zip(numbers, part.representations(theta, images="test"), strict=True)
    ordered = sorted(pairs.items())
    columns = [
        pa.array([client for client, (_, labels) in ordered for _ in labels], pa.int32()),
        pa.array([label for _, (_, labels) in ordered for label in labels.tolist()], pa.int16()),
        pa.array([vector for _, (z, _) in ordered for vector in _rows(z)], VECTOR),
    ]
    return pa.record_batch(columns, schema=SCHEMAS["representations"])


def _predicted(models: FinalModels) -> pa.RecordBatch:
    """The predictions of some models; as in the scores, a client without training images has none."""

    def values(theta: Tree, batch: Batch, at: LossContext) -> dict[str, Tensor]:
        probability, predicted = models.predict(theta, batch.x, at).double().softmax(dim=1).max(dim=1)
        return {"label": batch.y, "predicted": predicted, "probability": probability}

    data, numbers = models.fed.simulation.data, models.fed.numbers
    collected = zip(numbers, models.clients, models.fed.collect(models.theta, values, images="test"), strict=True)
    of_clients = [
        (client, data.samples[data.test[number].cpu().numpy()], table)
        for number, client, table in collected
        if len(data.train[number])
    ]
    images = np.concatenate([np.empty(0, np.int64), *(samples for _, samples, _ in of_clients)])
    columns = [
        pa.DictionaryArray.from_arrays(column(np.zeros(len(images), np.int32), pa.int32()), pa.array([models.point])),
        pa.array([client for client, samples, _ in of_clients for _ in samples], pa.int32()),
        column(images, pa.int32()),
        *(_joined([table[name] for *_, table in of_clients], kind) for name, kind in OF_AN_IMAGE.items()),
    ]
    return pa.record_batch(columns, schema=SCHEMAS["predictions"])


def _joined(values: list[Tensor], kind: pa.DataType) -> pa.Array:
    return column(np.concatenate([np.empty(0), *(t.cpu().numpy() for t in values)]), kind)


def _cooperation(matrices: list[tuple[int, str, Tensor]]) -> Iterator[pa.RecordBatch]:
    lines = (
        (round_, name, client, values)
        for round_, name, matrix in matrices
        for client, values in enumerate(matrix.cpu().numpy())
    )
    together = max(1, ROWS_TOGETHER // max((len(matrix) for *_, matrix in matrices), default=1))
    while some := list(islice(lines, together)):
        yield _of_lines(*zip(*some, strict=True))


def _of_lines(
    rounds: Sequence[int], names: Sequence[str], clients: Sequence[int], values: Sequence[np.ndarray]
) -> pa.RecordBatch:
    """Lines [m] of matrices, each what one client has of all others [N]."""
    others, known = len(values[0]), sorted(set(names))

    def repeated(numbers: Sequence[int]) -> pa.Array:
        return column(np.repeat(np.array(numbers, np.int32), others), pa.int32())

    columns = [
        repeated(rounds),
        pa.DictionaryArray.from_arrays(repeated([known.index(name) for name in names]), pa.array(known, pa.string())),
        repeated(clients),
        column(np.tile(np.arange(others), len(values)), pa.int32()),
        column(np.concatenate(values), pa.float64()),
    ]
    return pa.record_batch(columns, schema=SCHEMAS["cooperation"])


def _clusters(method: Method, s: State) -> Iterator[pa.RecordBatch]:
    groups, kinds = method.clusters(s), SCHEMAS["clusters"]
    rows = len(groups.get("cluster", ()))
    columns = [pa.array(_listed(groups, name, rows), kinds.field(name).type) for name in ("client", "label", "cluster")]
    vectors = _rows(groups["vector"]) if "vector" in groups else [None] * rows
    yield pa.record_batch([*columns, pa.array(vectors, VECTOR)], schema=kinds)


def _listed(groups: Mapping[str, Tensor], name: str, rows: int) -> list[int | None]:
    return groups[name].tolist() if name in groups else [None] * rows


def _rows(vectors: Tensor) -> list[np.ndarray]:
    return list(vectors.float().cpu().numpy())
