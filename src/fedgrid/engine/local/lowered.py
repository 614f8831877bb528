"""The executor that also computes convolutions as matrix products."""

from collections.abc import Iterator
from contextlib import contextmanager

from fedgrid.engine.local.captured import Captured
from fedgrid.engine.local.convolutions import Products
from fedgrid.engine.local.task import LocalTask


class Lowered(Captured):
    """As `Captured`, to rounding, where clients have filters of their own."""

    @contextmanager
    def _working(self, task: LocalTask) -> Iterator[None]:
        with super()._working(task), Products():
            yield
