"""Chooses the cells of a group that are trained again, so that they cover every two choices that meet in a cell."""

import functools
from collections.abc import Sequence
from itertools import combinations

from fedgrid.grid.adoption.candidates import Candidate, Group
from fedgrid.grid.adoption.choices import Choice, choices_of, numbers_of
from fedgrid.grid.study.canonical import digest

SMALLEST, LARGEST = "the smallest here", "the largest here"
"A number among those of a group's candidates."
Combination = frozenset[Choice]
"One choice, or two in the same cell."


def choose_cells_to_check(group: Group, least: int) -> list[Candidate]:
    """The candidates of a group that must be trained besides those already checked.

    As many as cover every choice that occurs among the candidates and every two that occur in one of them, those first
    that cover most; and others, by the group's digest, until `least` (or the whole group) are checked. Of each number,
    the smallest and the largest in the group are choices. Kinds of clients are known where partitions are built.
    """
    order = sorted(group.candidates, key=lambda candidate: digest([group.code_before, group.code_now, candidate.key]))
    combinations_of = _combinations(order, group.checked)
    of_candidates, of_checked = combinations_of[: len(order)], combinations_of[len(order) :]
    chosen: list[int] = []
    missing = set[Combination]().union(*of_candidates).difference(*of_checked)
    while missing:
        chosen.append(max(range(len(order)), key=lambda number: len(of_candidates[number] & missing)))
        missing -= of_candidates[chosen[-1]]
    others = [number for number in range(len(order)) if number not in chosen]
    chosen += others[: max(0, least - len(group.checked) - len(chosen))]
    return [order[number] for number in chosen]


def _combinations(candidates: Sequence[Candidate], checked: Sequence[Candidate]) -> list[frozenset[Combination]]:
    """The combinations in each of the candidates and of the checked cells.

    Choices that all of them have are left out: whichever cell is trained covers those.
    """
    choices = _choices(candidates, checked)
    everywhere = set.intersection(*choices)
    return [_combined(frozenset(of_cell - everywhere)) for of_cell in choices]


@functools.cache  # cells that differ in their seeds have the same
def _combined(choices: frozenset[Choice]) -> frozenset[Combination]:
    return frozenset(frozenset(some) for size in (1, 2) for some in combinations(choices, size))


def _choices(candidates: Sequence[Candidate], checked: Sequence[Candidate]) -> list[set[Choice]]:
    """The choices of each of the candidates and of the checked cells."""
    choices = [set(choices_of(one)) for one in (*candidates, *checked)]
    numbers = [numbers_of(one) for one in (*candidates, *checked)]
    for name in set().union(*numbers[: len(candidates)]):
        values = [of_cell[name] for of_cell in numbers[: len(candidates)] if name in of_cell]
        for which, extreme in ((SMALLEST, min(values)), (LARGEST, max(values))):
            for of_cell, chosen in zip(numbers, choices, strict=True):
                if of_cell.get(name) == extreme:
                    chosen.add((name, which))
    return choices
