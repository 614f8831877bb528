"""Which tests `make test` leaves to `make test-all`: those marked ``full``, and most methods of some that take all."""

from collections.abc import Sequence
from typing import Any

import pytest

REPRESENTATIVES = ("ditto", "fedcosr", "fedsac", "knn_per", "pfedhn", "scaffold")
"""One method of each mechanism: personal copies, representations, a solver on the server, a prediction rule of its own,
a hypernetwork, control variates."""

OF_REPRESENTATIVES = (
    "test_edge",
    "test_a_seed_changes_the_result",
    "test_a_run_that_is_killed_in_every_round_is_the_undisturbed_one",
    "test_clients_one_by_one_or_together",
)
"""Tests of the suite of `fedgrid check` that take all methods there, and representatives in `make test`."""


def mark_full(items: Sequence[pytest.Item]) -> None:
    """Marks cases ``full`` whose test takes representatives in `make test` and whose method is none of them."""
    for item in items:
        takes_few = (
            item.get_closest_marker("representatives") or getattr(item, "originalname", "") in OF_REPRESENTATIVES
        )
        if takes_few and method_of(item) not in REPRESENTATIVES:
            item.add_marker("full")


def method_of(item: pytest.Item) -> str | None:
    """The method that a parametrised case is about; None where it is not about one."""
    parameters: dict[str, Any] = getattr(getattr(item, "callspec", None), "params", {})
    return parameters.get("method_name", parameters.get("name"))


def every_third(values: Sequence[Any], step: int = 3, several: bool = False) -> list[Any]:
    """Cases of which each third (or other step) runs in `make test`, and all of them in `make test-all`.

    With `several`, a value is a tuple of the values of several parameters.
    """
    cases = [pytest.param(*(value if several else [value]), marks=pytest.mark.full) for value in values]
    cases[::step] = values[::step]
    return cases
