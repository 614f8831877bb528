"""The accuracy table as papers lay it out, by hand."""

from functools import partial

import pandas as pd
import pytest
from toys import make_table, marks, texts

from fedgrid.analysis.tables.common.grid import markdown
from fedgrid.analysis.tables.common.pivot import pivot
from fedgrid.errors import UserError

accuracy = partial(make_table, "accuracy")

EVERYTHING = {"std": True, "ranks": True, "averaged": True, "arrows": True, "delta": "FedAvg"}
GOLDEN = """\
| Method | Digits, Dirichlet β=0.1, 2 clients, Acc. (%) | Digits, Dirichlet β=0.1, 2 clients, Std. over clients (%) | \
Digits, homogeneous, 2 clients, Acc. (%) | Digits, homogeneous, 2 clients, Std. over clients (%) |
| --- | ---: | ---: | ---: | ---: |
| Local | 55.50 ± 0.50 (+9.50) ↓<sup>②</sup> | 5.50 ↓<sup>①</sup> | – | – |
| FedAvg | 46.00 ± 1.00 (+0.00) ↓<sup>③</sup> | 6.00 ↑<sup>③</sup> | 70.00 ± 0.00 (+0.00)<sup>①</sup> | \
0.00<sup>①</sup> |
| Ditto | **85.75 ± 0.75 (+39.75) ↑**<sup>①</sup> | 5.75<sup>②</sup> | diverged<sup>a</sup> | – |
| Averaged | 62.42 | 5.75 | 70.00 | 0.00 |

<sup>a</sup> seed 2 diverged: the loss of client 1 is not finite in round 1.
"""


def test_golden_table(common_toy):
    _, grid = accuracy(common_toy.load(), EVERYTHING)
    assert markdown(grid).split("\n\n", 1)[1] == GOLDEN
    for text in (
        "In parentheses: the difference to FedAvg in points.",
        "Averaged: the mean over the rows that have a value; ↑ and ↓: above and below it.",
    ):
        assert text in grid.caption


def test_accuracy_alone_has_no_level_of_numbers(common_toy):
    _, grid = accuracy(common_toy.load(), {})
    assert [len(level) for level in grid.header] == [1, 2]
    assert texts(grid)["Local"] == ["55.50 ± 0.50", "–"] and marks(grid)["Local"] == ["", ""]
    assert "③" not in grid.caption and "Std. over" not in grid.caption and "Averaged" not in grid.caption


def test_csv_has_the_row_averaged_behind_the_entries(common_toy):
    table, _ = accuracy(common_toy.load(), EVERYTHING)
    average = table[table["label"] == "Averaged"].set_index("heterogeneity")
    assert average["accuracy"].to_dict() == pytest.approx({"dir": (0.555 + 0.46 + 0.8575) / 3, "hom": 0.7})
    delta = table.set_index(["label", "heterogeneity"])["delta"]
    assert delta["local", "dir"] == pytest.approx(0.095) and pd.isna(delta["ditto", "hom"])
    assert "domain" not in table and "delta" not in accuracy(common_toy.load(), {})[0]


def test_ties_share_a_rank_from_either_end(make_study):
    study = make_study(seeds=[0])
    for label, values in (("a", [0.4, 0.6]), ("b", [0.3, 0.7]), ("c", [0.3, 0.5]), ("d", [0.6, 0.4])):
        study.cell(label, "dir", 0, {1: values})
    _, grid = accuracy(study.load(), {"std": True, "ranks": True})
    assert marks(grid) == {"a": ["①", "①"], "b": ["①", ""], "c": ["", "①"], "d": ["①", "①"]}


def test_a_row_to_compare_with_must_be_there(common_toy):
    with pytest.raises(UserError, match="no row 'FedAvgg'; did you mean 'FedAvg'"):
        pivot(common_toy.load(), delta="FedAvgg")


def test_one_row_and_one_column(make_study):
    study = make_study(seeds=[0])
    study.method("m", title="M")
    study.cell("m", "dir", 0, {1: [0.2, 0.4]})
    _, grid = accuracy(study.load(), EVERYTHING | {"delta": "M"})
    assert texts(grid) == {"M": ["30.00 (+0.00)", "10.00"], "Averaged": ["30.00", "10.00"]}


def test_what_is_unavailable_is_a_dash_with_its_reason(make_study):
    study = make_study(seeds=[0, 1], data={"digits": "Digits", "net": "DomainNet"})
    for label in "ab":
        for seed in (0, 1):
            study.cell(label, "dir", seed, {1: [0.5, 0.5]})
            study.without(label, "dir", seed, "DomainNet is not at hand: see docs/data.md.", data="net")
    table, grid = accuracy(study.load(), EVERYTHING | {"delta": "a", "domains": True})
    assert texts(grid)["b"][2:] == ["–", "–"] and texts(grid)["Averaged"][2:] == ["–", "–"]
    assert marks(grid)["a"][2:] == marks(grid)["b"][2:] == ["a", ""]
    assert grid.notes == ["unavailable: DomainNet is not at hand: see docs/data.md."]
    assert table.loc[table["data"] == "net", "seeds_failed"].tolist()[:2] == [0, 0]


def with_domains(make_study):
    """Two clients of domain x and one of y beside one of none, and a column whose clients have no domains."""
    study = make_study(seeds=[0, 1])
    for label, gain in (("fedavg", 0.0), ("mine", 0.1)):
        study.method(label, title={"fedavg": "FedAvg", "mine": "Mine"}[label])
        for seed in (0, 1):
            more = gain + 0.02 * seed
            values = [0.2 + more, 0.4 + more, 0.8 + gain, 0.0]
            study.cell(label, "dir", seed, {1: values}, samples=[1, 3, 4, 5], domains=["x", "x", "y", None])
            study.cell(label, "hom", seed, {1: [0.5 + gain, 0.5]})
    return study


def test_a_column_is_a_domain_and_avg_is_their_mean(make_study):
    table, grid = accuracy(with_domains(make_study).load(), {"domains": True, "std": True, "delta": "FedAvg"})
    means = table.set_index(["label", "heterogeneity", "domain"])
    assert means.loc[("fedavg", "dir"), "accuracy"].to_dict() == pytest.approx({"x": 0.31, "y": 0.8, "avg": 0.555})
    spread = means.loc[("fedavg", "dir"), "accuracy_std_seeds"].to_dict()  # of two seeds: difference / √2
    assert spread == pytest.approx({"x": 0.02 / 2**0.5, "y": 0.0, "avg": 0.01 / 2**0.5})
    std = means.loc[("mine", "dir"), "std_clients"]  # of x: half of 0.2; of all that have a domain: 0.3, 0.5, 0.9, and
    assert std["x"] == pytest.approx(0.1) and std["y"] == 0  # 0.32, 0.52, 0.9 with the other seed
    assert std["avg"] == pytest.approx(((0.56 / 9) ** 0.5 + (0.5208 / 9) ** 0.5) / 2)
    assert means.loc[("mine", "hom", ""), "accuracy"] == pytest.approx(0.55)
    assert texts(grid)["Mine"][:6:2] == ["41.00 ± 1.41", "90.00 ± 0.00", "65.50 ± 0.71 (+10.00)"]
    assert [text for text, _ in grid.header[2]] == ["x", "y", "Avg.", ""]
    assert [span for _, span in grid.header[1]] == [6, 2]
    assert "Avg.: the mean over domains" in grid.caption


def test_without_domains_all_clients_count(make_study):
    table, _ = accuracy(with_domains(make_study).load(), {})
    first = table.set_index(["label", "heterogeneity"])["accuracy"]["fedavg", "dir"]
    assert first == pytest.approx((0.2 + 0.4 + 0.8 + 0.22 + 0.42 + 0.8) / 8)


def test_a_rows_own_point_and_rounds_override_the_studys(make_study):
    study = make_study(seeds=[0], score="received", at="last")
    also = {"accuracy_trained": {1: [0.6], 2: [0.8]}, "validation_accuracy_received": {1: [0.9], 2: [0.2]}}
    also["validation_accuracy_trained"] = {1: [0.1], 2: [0.7]}
    own = {
        "plain": {},
        "trained": {"score": "trained"},
        "last5": {"at": "last5"},
        "best": {"at": "validation"},
        "either": {"score": "validated"},
        "both": {"score": "trained", "at": "last5"},
    }
    for label, settings in own.items():
        study.method(label)
        study.study["methods"][label] |= settings
        study.cell(label, "dir", 0, {1: [0.1], 2: [0.3]}, also=also)
    actual = pivot(study.load()).table["accuracy"].droplevel(["data", "heterogeneity", "domain"]).to_dict()
    assert actual == pytest.approx(
        {"plain": 0.3, "trained": 0.8, "last5": 0.2, "best": 0.1, "either": 0.8, "both": 0.7}
    )
