"""The numbers of a cell: rows (round, client, metric, value)."""

from collections.abc import Iterable
from dataclasses import dataclass, field

import pyarrow as pa
import torch
from torch import Tensor


@dataclass
class Record:
    """Rows in the order in which they were recorded."""

    rows: list[tuple[int, str, list[int], list[float]]] = field(default_factory=list)
    "(round, metric, clients, values); one entry for all clients of a metric."

    def add(self, round_: int, metric: str, clients: Iterable[int], values: Tensor) -> None:
        """Adds a metric of some clients; values that are not numbers (nothing to measure) are left out."""
        pairs = [(c, v) for c, v in zip(clients, values.tolist(), strict=True) if v == v]
        if pairs:
            self.rows.append((round_, metric, [c for c, _ in pairs], [v for _, v in pairs]))

    def latest(self, metric: str) -> float | None:
        """Mean over clients of the last recorded values of a metric."""
        for _, name, _, values in reversed(self.rows):
            if name == metric:
                return sum(values) / len(values)
        return None

    def table(self) -> pa.Table:
        """Columns round int32, client int32, metric (dictionary of strings), value float64."""
        rounds = [r for r, _, clients, _ in self.rows for _ in clients]
        metrics = [m for _, m, clients, _ in self.rows for _ in clients]
        columns = {
            "round": pa.array(rounds, pa.int32()),
            "client": pa.array([c for _, _, clients, _ in self.rows for c in clients], pa.int32()),
            "metric": pa.array(metrics, pa.string()).dictionary_encode(),
            "value": pa.array([v for *_, values in self.rows for v in values], pa.float64()),
        }
        return pa.table(columns)

    def tensors(self) -> list[tuple[int, str, Tensor, Tensor]]:
        """The rows in a form that a checkpoint keeps exactly."""
        return [(r, m, torch.tensor(c), torch.tensor(v, dtype=torch.float64)) for r, m, c, v in self.rows]

    @classmethod
    def from_tensors(cls, rows: Iterable[tuple[int, str, Tensor, Tensor]]) -> "Record":
        """The inverse of `tensors`."""
        return cls([(r, m, c.tolist(), v.tolist()) for r, m, c, v in rows])
