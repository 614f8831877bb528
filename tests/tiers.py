"""Which tests `make test` leaves to `make test-all`: those marked ``full``, and most methods of some that take all."""

from collections.abc import Sequence
from typing import Any

import pytest

REPRESENTATIVES = ("ditto", "fedcosr", "fedsac", "knn_per", "pfedhn", "scaffold")
"""One method of each mechanism: personal copies, representations, a solver on the server, a prediction rule of its own,
a hypernetwork, control variates."""


def mark_full(items: Sequence[pytest.Item]) -> None:
    """Marks cases ``full`` whose test is marked ``representatives`` and whose method is none of them."""
    for item in items:
        if item.get_closest_marker("representatives") and method_of(item) not in REPRESENTATIVES:
            item.add_marker("full")


def method_of(item: pytest.Item) -> str | None:
    """The method that a parametrised case is about; None where it is not about one."""
    parameters: dict[str, Any] = getattr(getattr(item, "callspec", None), "params", {})
    return parameters.get("method_name", parameters.get("name"))


def every_third(values: Sequence[Any], step: int = 3) -> list[Any]:
    """Parameters of which each third (or other step) runs in `make test`, and all of them in `make test-all`."""
    return [value if i % step == 0 else pytest.param(value, marks=pytest.mark.full) for i, value in enumerate(values)]
