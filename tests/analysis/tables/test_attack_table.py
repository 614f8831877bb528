"""Accuracy under attack: its table, the printed numbers and the claims about it; by hand."""

from functools import partial

import pytest
from toys import make_table, marks, texts

from fedgrid.analysis.pages.table_set import tables
from fedgrid.analysis.papers.claims import CONFIRMED, REFUTED, verdicts
from fedgrid.analysis.papers.published import join_printed_numbers
from fedgrid.analysis.tables.attacks import evaluated

attacks = partial(make_table, "attacks")


@pytest.fixture
def attacked(make_study):
    """Three rows, three seeds; "Plain" is better on clean images and worse under attack, of which "Never" has none."""
    study = make_study(seeds=[0, 1, 2], heterogeneity={"dir": "dir"}, show=[{"table": "attacks", "ranks": True}])
    scores = {"Plain": (0.9, 0.3), "Hardened": (0.8, 0.6), "Never": (0.5, None)}
    for name, (clean, fgsm) in scores.items():
        study.method(name.lower(), title=name)
        for seed in (0, 1, 2):
            values = {2: [fgsm + seed * fgsm / 6, fgsm]} if fgsm else {}
            own = clean + seed / 50 if name == "Plain" else clean
            study.cell(
                name.lower(),
                "dir",
                seed,
                {1: [0.1, 0.1], 2: [own, clean]},
                samples=[2000, 2000],
                also={"fgsm_accuracy_received": values, "fgsm_loss_received": values},
            )
    return study


def test_a_column_for_every_attack(attacked):
    numbers, grid = attacks(attacked.load(), {"ranks": True})
    assert [text for text, _ in grid.header[-1]] == ["Clean", "FGSM"]
    assert texts(grid) == {
        "Plain": ["91.00 ± 1.00", "32.50 ± 2.50"],
        "Hardened": ["80.00 ± 0.00", "65.00 ± 5.00"],
        "Never": ["50.00 ± 0.00", "–"],
    }
    assert marks(grid) == {"Plain": ["①", "②"], "Hardened": ["②", "①"], "Never": ["③", ""]}
    assert numbers.groupby("images")["accuracy"].max().to_dict() == pytest.approx({"clean": 0.91, "fgsm": 0.65})
    assert "FGSM: one step" in grid.caption and "first, second and third" in grid.caption
    assert "first, second and third" not in attacks(attacked.load(), {})[1].caption


def test_a_study_may_show_it(attacked):
    assert [name for name, _ in tables(attacked.load())] == ["attacks"]


def test_without_attacks_there_are_clean_images_alone(common_toy):
    assert evaluated(common_toy.load()) == ["clean"]


def test_printed_numbers_and_claims(attacked):
    attacked.prints("Plain", "31.50", metric="fgsm_accuracy", heterogeneity="dir")
    attacked.prints("Plain", "92.00", metric="clean_accuracy", heterogeneity="dir")
    attacked.study["claims"] = [
        {"says": "so", "above": ["Hardened", "Plain"], "metric": metric}
        for metric in ("clean_accuracy", "fgsm_accuracy")
    ]
    results = attacked.load()
    assert join_printed_numbers(results)["difference"].tolist() == pytest.approx([1.0, -1.0])
    assert [one.verdict for one in verdicts(results)] == [REFUTED, CONFIRMED]
    assert verdicts(results)[1].rule == "the accuracy (FGSM) of Hardened is better than that of Plain in every column."
