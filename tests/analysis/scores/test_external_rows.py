"""External results in tables and figures: shown, ranked, and paired by seed only on the same partitions."""

from functools import partial
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from scipy.stats import ttest_ind, ttest_rel
from toys import Study, draw_figure, make_table

from fedgrid.analysis.pages.figure_set import draw
from fedgrid.analysis.pages.table_set import tables
from fedgrid.analysis.scores.budgets import budgets
from fedgrid.analysis.scores.results import load
from fedgrid.analysis.scores.summary import summary
from fedgrid.data.sources.digests import digest
from fedgrid.errors import UserError
from fedgrid.files import write_table

curves = partial(draw_figure, "curves")
rounds = partial(make_table, "rounds")

OURS = [0.50, 0.55, 0.45, 0.52, 0.48]
THEIRS = [0.61, 0.64, 0.57, 0.62, 0.60]
DIGEST = "0123456789abcdef" * 4


class WithTheirs(Study):
    """A toy study with a row of others, from the file theirs.csv."""

    def add_file(self, text, title="Theirs (external)"):
        file = self.folder / "theirs.csv"
        file.write_text(text)
        self.external = [{"label": "theirs", "title": title, "path": str(file), "digest": digest(file), "position": 1}]
        origin = f"theirs.csv, SHA-256 {digest(file)[:16]}"
        self.study["methods"]["theirs"] = {"method": "theirs", "title": title, "score": "reported", "external": origin}
        return self

    @property
    def content(self):
        return super().content | {"external": self.external}

    def add_partitions(self):
        """Two clients with 10 and 30 test images, whichever the seed."""
        rows = [(0, "test")] * 10 + [(1, "test")] * 30 + [(0, "train"), (1, "train")]
        table = pa.table({"client": [row[0] for row in rows], "split": [row[1] for row in rows]})
        for file in {cell["partition"] for cell in self.cells}:
            write_table(Path(file), table, {"clients": 2, "digest": DIGEST})


def means(partition=""):
    head = "data,heterogeneity,seed,mean" + ",partition" * bool(partition)
    rows = [f"digits,dir,{seed},{value}" + f",{partition}" * bool(partition) for seed, value in enumerate(THEIRS)]
    return "\n".join([head, *rows]) + "\n"


@pytest.fixture
def toy(tmp_path):
    study = WithTheirs(tmp_path, seeds=[0, 1, 2, 3, 4]).in_column({"fedavg": OURS})
    study.add_partitions()
    return study


def entry(results, label):
    return summary(results).set_index("label").loc[label]


def test_a_row_of_others_is_shown_and_ranked(toy):
    results = toy.add_file(means()).load()
    theirs = entry(results, "theirs")
    assert theirs["accuracy"] == pytest.approx(np.mean(THEIRS)) and theirs["rank"] == 1 and theirs["seeds"] == 5
    assert np.isnan(theirs["std_clients"]) and np.isnan(theirs["accuracy_weighted"])
    printed = dict(tables(results))["accuracy"][1]
    (row,) = [entries for name, entries in printed.rows if name == "Theirs (external)"]
    assert row[0].text.startswith("60.80 ± ") and row[0].mark == "①" and row[1].text == "–"


def test_seeds_of_unknown_partitions_are_not_paired(toy):
    against = entry(toy.add_file(means()).load(), "fedavg")
    test = ttest_ind(THEIRS, OURS, equal_var=False)
    assert against["p_value"] == pytest.approx(test.pvalue)
    assert against["low"] == pytest.approx(test.confidence_interval().low)


@pytest.mark.parametrize("shown", [DIGEST, DIGEST[:16]])
def test_seeds_of_the_same_partitions_are_paired(toy, shown):
    results = toy.add_file(means(shown)).load()
    assert entry(results, "fedavg")["p_value"] == pytest.approx(ttest_rel(THEIRS, OURS).pvalue)


def test_the_digest_of_another_partition_pairs_nothing(toy):
    results = toy.add_file(means("f" * 16)).load()
    assert entry(results, "fedavg")["p_value"] == pytest.approx(ttest_ind(THEIRS, OURS, equal_var=False).pvalue)


def test_clients_and_rounds(toy):
    lines = ["data,heterogeneity,seed,round,client,value"]
    lines += [f"digits,dir,{s},{r},{c},{0.1 * (r + c) + 0.01 * s}" for s in range(5) for r in (1, 2) for c in (0, 1)]
    theirs = entry(toy.add_file("\n".join(lines)).load(), "theirs")
    assert theirs["accuracy"] == pytest.approx(0.27) and theirs["std_clients"] == pytest.approx(0.05)
    assert theirs["accuracy_weighted"] == pytest.approx((0.22 * 10 + 0.32 * 30) / 40)


def test_the_caption_names_the_file_its_digest_and_the_test(toy):
    results = toy.add_file(means()).load()
    origin = results.study.methods["theirs"].external
    for _, grid in dict(tables(results)).values():
        assert f"Theirs (external): not trained here; external results ({origin})" in grid.caption
    paired = dict(tables(toy.add_file(means(DIGEST)).load()))["accuracy"][1]
    assert "paired by seed, since its partitions are the same" in paired.caption


def test_costs_and_environments_are_of_trained_cells(toy):
    results = toy.add_file(means()).load()
    costs = dict(tables(results))["costs"][0].set_index("label")
    assert costs.loc["theirs", "cells"] == 0 and np.isnan(costs.loc["theirs", "seconds"])
    assert len(results.trained) == len(results.to_train) == 5 and len(results.cells) == 10


def test_a_row_of_others_is_drawn(toy, tmp_path):
    results = toy.add_file(means()).load()
    figure, _, _ = curves(results, "digits")
    marked = {line.get_marker() for ax in figure.axes for line in ax.get_lines()}
    assert "o" in marked  # one point, which a line alone would not show
    assert "Theirs (external)" in {text.get_text() for text in figure.legends[0].get_texts()}
    for kind in ("curves", "bars"):
        draw(kind, results, tmp_path / kind, {"data": "digits"})
        caption = (tmp_path / f"{kind}.txt").read_text().split("\n\n")[1]
        assert results.study.methods["theirs"].external in caption


def test_an_edited_file_is_not_shown_as_the_planned_one(toy):
    toy.add_file(means())
    file = toy.folder / "theirs.csv"
    file.write_text(file.read_text().replace("0.61", "0.99"))
    with pytest.raises(UserError, match=r"theirs\.csv: edited since planning"):
        toy.results()


def test_results_without_such_rows_stay_readable(toy):
    toy.external = []
    assert not any(cell.external for cell in load(toy.results()).finished)


def test_what_a_row_of_others_cost_is_not_known(tmp_path):
    training = {"rounds": 2, "participation": 1.0, "local_epochs": 1, "local_steps": None, "batch_size": 16}
    study = WithTheirs(tmp_path, seeds=[0], protocol=training)
    study.cell("fedavg", "dir", 0, {1: [0.8, 0.8]}, also={"train_samples": {0: [10, 30]}})
    study.add_partitions()
    study.add_file("data,heterogeneity,seed,mean\ndigits,dir,0,0.7\n")
    results = load(study.results())
    given = budgets(results).set_index("label")
    assert given.images_table.to_dict() == {"fedavg": 80, "theirs": 0}
    _, grid = rounds(results, {"target": 60, "costs": True})
    ((_, theirs),) = [row for row in grid.rows if row[0] == "Theirs (external)"]
    assert [entry.text for entry in theirs[1:]] == ["–", "–"]
