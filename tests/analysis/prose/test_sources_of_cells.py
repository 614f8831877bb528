"""Captions say whose cells a table has, where several stores computed them."""

from dataclasses import replace

import pytest
from toys import Study

from fedgrid.analysis.pages.table_set import tables
from fedgrid.analysis.prose.imports import sources
from fedgrid.analysis.scores.results import Results


def results_of(toy: Study, names: list[str]) -> Results:
    """The toy study, whose cells come from these sources in turn."""
    results = toy.load()
    cells = [replace(cell, source=names[number % len(names)]) for number, cell in enumerate(results.trained)]
    return replace(results, cells=cells)


@pytest.mark.parametrize("names", [[""], ["anna.zip (sha256 12345678)"]])
def test_cells_of_one_store_need_no_sentence(names, common_toy):
    assert sources(results_of(common_toy, names)) == []


def test_every_table_counts_the_cells_of_each_source(common_toy):
    results = results_of(common_toy, ["", "ben", "anna.zip (sha256 12345678)", "ben"])
    here, ben, anna = (sum(cell.source.startswith(name) for cell in results.trained) for name in ("", "ben", "anna"))
    here -= ben + anna
    sentence = f"Cells of 3 sources: {here} computed here, {ben} of ben and {anna} of anna.zip (sha256 12345678)."
    assert sources(results) == [sentence]
    captions = [grid.caption for _, (_, grid) in tables(results)]
    assert captions and all(caption.count(sentence) == 1 for caption in captions)
