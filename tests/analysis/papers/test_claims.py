"""Verdicts on claims, by hand."""

import math

import pytest
from scipy.stats import t, ttest_rel

from fedgrid.analysis.pages.table_set import tables
from fedgrid.analysis.papers.claims import (
    CONFIRMED,
    INCONCLUSIVE,
    MISSING,
    REFUTED,
    SMALL,
    TOO_EARLY,
    UNCHECKED,
    limits_text,
    outcome,
    verdicts,
)
from fedgrid.analysis.papers.rules import Judged, Part
from fedgrid.analysis.scores.comparisons import Exact
from fedgrid.grid.study.claim import Claim

NOISE = {"A": (0.0, 0.01, -0.01), "B": (0.01, -0.01, 0.0), "C": (-0.01, 0.0, 0.012), "D": (0.005, -0.005, 0.001)}
"""What a row's seeds add to its accuracy."""


def study_of(make_study, rows, seeds=3, columns=("dir", "hom"), samples=(2000, 2000), noise=1.0, **study):
    """Rows with the accuracies of two clients by column, which differ a little by seed; None: no cell."""
    study = make_study(seeds=list(range(seeds)), heterogeneity={name: name for name in columns}, **study)
    for name, by_column in rows.items():
        study.method(name.lower(), title=name)
        for place, (column, values) in enumerate(zip(columns, by_column, strict=True)):
            for seed in range(seeds if values else 0):
                added = noise * NOISE[name][(seed + place) % 3]
                study.cell(name.lower(), column, seed, {1: [value + added for value in values]}, samples=list(samples))
    return study


def add_row(study, name, curves, column="dir", **names):
    """A row of two clients with many test images each, of one curve by seed."""
    study.method(name.lower(), title=name)
    for seed, curve in enumerate(curves):
        study.cell(name.lower(), column, seed, curve, samples=[2000, 2000], **names)


ROWS = {
    "A": ([0.8, 0.8], [0.7, 0.9]),
    "B": ([0.7, 0.9], [0.6, 0.7]),
    "C": ([0.5, 0.6], [0.2, 0.6]),
}
"""Means 80, 80, 55 and 80, 65, 40; std 0, 10, 5 and 10, 5, 20."""


def verdict_on(study, **claim):
    study.study["claims"] = [{"says": "so"} | claim]
    (verdict,) = verdicts(study.load())
    return verdict


@pytest.mark.parametrize(
    ("claim", "expected"),
    [
        ({"leads": "A"}, INCONCLUSIVE),  # level with B in the first column
        ({"leads": "A", "columns": ["hom"]}, CONFIRMED),
        ({"leads": "A", "columns": ["Digits, hom"], "by": [10, 20]}, REFUTED),  # 15 over B, but 40 over C
        ({"leads": "A", "columns": ["hom"], "by": [10, None]}, CONFIRMED),
        ({"leads": "A", "rows": ["A", "C"]}, CONFIRMED),
        ({"leads": "B"}, REFUTED),
        ({"last": "C"}, CONFIRMED),
        ({"last": "B"}, REFUTED),
        ({"within": ["A", 1]}, INCONCLUSIVE),
        ({"within": ["A", 2]}, CONFIRMED),
        ({"within": ["B", 1]}, REFUTED),
        ({"within": ["B", 2]}, CONFIRMED),
        ({"within": ["C", 2]}, REFUTED),
        ({"within": ["C", 3]}, INCONCLUSIVE),  # of three
        ({"above": ["A", "C"]}, CONFIRMED),
        ({"above": ["A", "B"]}, INCONCLUSIVE),
        ({"above": ["C", "B"]}, REFUTED),
        ({"above": [["A", "B"], "C"]}, CONFIRMED),
        ({"above": ["all", "C"]}, CONFIRMED),
        ({"above": ["A", "all"], "most": True}, INCONCLUSIVE),  # level with one of two
        ({"above": ["all", "B"], "columns": ["hom"]}, REFUTED),  # C is below B
        ({"above": ["A", "C"], "by": [20, 30], "columns": ["dir"]}, CONFIRMED),
        ({"above": ["A", "C"], "by": [20, 30]}, REFUTED),  # 25 and 40
        ({"above": ["A", "C"], "by": [90, 110], "unit": "percent", "columns": ["hom"]}, CONFIRMED),  # 40 of 40
        ({"difference": ["A", "B"], "by": [-4, 4], "columns": ["dir"]}, CONFIRMED),
        ({"difference": ["A", "B"], "by": [-0.1, 0.1], "columns": ["dir"]}, INCONCLUSIVE),
        ({"difference": ["A", "B"], "by": [-4, 4]}, REFUTED),
        ({"falls": "C", "columns": ["dir", "hom"]}, CONFIRMED),
        ({"rises": "C", "columns": ["dir", "hom"]}, REFUTED),
        ({"rises": "C", "columns": ["hom", "dir"], "by": [10, 20]}, CONFIRMED),
        ({"falls": ["A", "B"], "columns": ["dir", "hom"]}, INCONCLUSIVE),  # A is the same to the seed
        ({"falls": "all", "columns": ["dir", "hom"], "most": True}, CONFIRMED),
        ({"falls": "all", "columns": ["dir", "hom"], "most": 0.6}, CONFIRMED),  # B and C, but not A
        ({"falls": "all", "columns": ["dir", "hom"], "most": 0.8}, INCONCLUSIVE),
        ({"grows": ["A", "B"]}, CONFIRMED),  # 0, 15
        ({"grows": ["A", "C"]}, CONFIRMED),  # 25, 40
        ({"grows": ["C", "A"]}, REFUTED),
        ({"shrinks": ["C", "A"]}, CONFIRMED),
        ({"grows": ["A", "all"]}, CONFIRMED),
        ({"difference": ["A", "C"], "by": [None, 0], "columns": ["hom"]}, REFUTED),
    ],
)
def test_verdicts(make_study, claim, expected):
    assert verdict_on(study_of(make_study, ROWS), **claim).verdict == expected


@pytest.mark.parametrize("claim", [{"leads": "B"}, {"above": ["A", "C"]}, {"difference": ["A", "C"], "by": [20, 50]}])
@pytest.mark.parametrize("seeds", [1, 2])
def test_fewer_than_three_seeds_decide_nothing(make_study, claim, seeds):
    actual = verdict_on(study_of(make_study, ROWS, seeds=seeds), **claim)
    assert actual.verdict == INCONCLUSIVE
    assert actual.numbers and all(f"({seeds} seed" in line for line in actual.numbers)
    assert actual.why == "fewer than three seeds"


def test_seeds_that_all_agree_are_no_evidence(make_study):
    actual = verdict_on(study_of(make_study, ROWS, noise=0.0), above=["A", "C"])
    assert (actual.verdict, actual.why) == (INCONCLUSIVE, "differences too small for these seeds")


def test_a_verdict_says_its_rule_and_its_numbers(make_study):
    actual = verdict_on(study_of(make_study, ROWS), above=["A", "C"], columns=["dir"], by=[20, 30])
    assert actual.rule == "the accuracy of A is better than that of C by 20 to 30 points in dir."
    low, high = ttest_rel([80, 81, 79], [54, 55, 56.2]).confidence_interval(0.95)
    expected = f"A 80.00, C 55.07: +24.93 points (95 % CI +{low:.2f} to +{high:.2f}, 3 seeds)"
    assert actual.numbers == [f"Digits, dir: {expected}"]


@pytest.mark.parametrize(
    ("by", "unit", "words"),
    [
        ((1, None), "points", "by at least 1 point"),
        ((None, 0.5), "points", "by at most 0.5 points"),
        ((-1, 1), "points", "by −1 to 1 points"),
        ((1, None), "percent", "by at least 1 %"),
    ],
)
def test_limits_in_words(by, unit, words):
    assert limits_text(Claim("It is so.", above=("A", "C"), by=by, unit=unit)) == words


def test_an_inconclusive_column_says_what_it_could_have_detected(make_study):
    study = study_of(make_study, ROWS)
    for row, value in (("A", "81"), ("B", "80.5"), ("C", "60")):
        study.prints(row, value, heterogeneity="dir")
    (line, _) = verdict_on(study, leads="A").numbers
    assert line.startswith("Digits, dir: A 80.00, B 80.00: +0.00 points (95 % CI −4.30 to +4.30, 3 seeds)")
    enough = next(n for n in range(3, 99) if (t.isf(0.05, n - 1) + t.ppf(0.8, n - 1)) * math.sqrt(3 / n) <= 0.5)
    detectable = f"{t.isf(0.05, 2) + t.ppf(0.8, 2):.2f}"
    assert f"smallest detectable difference {detectable} points (the printed +0.50 would take {enough} seeds)" in line


def test_numbers_of_the_paper_that_violate_a_rule_are_named(make_study):
    study = study_of(make_study, ROWS)
    for row, value in (("A", "80"), ("B", "81"), ("C", "60")):
        study.prints(row, value, heterogeneity="dir")
    actual = verdict_on(study, within=["B", 2])
    assert (actual.verdict, actual.contradicted) == (CONFIRMED, [])
    actual = verdict_on(study, leads="A")
    assert actual.contradicted == ["Digits, dir"]
    assert actual.numbers[-1] == "The paper's own numbers violate this in Digits, dir"


def test_one_column_against_a_claim_is_corrected_for_their_number(make_study):
    """Twelve columns that say nothing make one that is against a claim inconclusive."""
    names = [f"c{i}" for i in range(12)]
    level = ([0.7, 0.7],) * 11
    rows = {"A": (*level, [0.7, 0.7]), "B": (*level, [0.76, 0.76])}
    study = study_of(make_study, rows, columns=names)
    assert verdict_on(study, above=["A", "B"], columns=["c11"]).verdict == REFUTED
    actual = verdict_on(study, above=["A", "B"])
    assert actual.verdict == INCONCLUSIVE and actual.columns[11].verdict == REFUTED


def part(*differences, needed):
    compared = [Judged("a", "b", (0.0, 0.0), Exact(value), (0.0, math.inf)) for value in differences]
    return Part("accuracy", (), compared, needed)


@pytest.mark.parametrize(
    ("parts", "expected"),
    [
        ([part(1, 2, needed=2)], CONFIRMED),
        ([part(1, -2, needed=2)], REFUTED),
        ([part(1, -2, needed=1)], CONFIRMED),
        ([part(1, 0, needed=2)], INCONCLUSIVE),
        ([part(-1, needed=0)], CONFIRMED),
        ([part(1, needed=None)], INCONCLUSIVE),
        ([part(1, needed=1), part(0, needed=1)], INCONCLUSIVE),
        ([part(1, needed=1), part(-1, needed=1)], REFUTED),
        ([], INCONCLUSIVE),
    ],
)
def test_columns_make_a_verdict(parts, expected):
    assert outcome(parts) == expected


def test_verdicts_are_a_table_too(make_study):
    study = study_of(make_study, ROWS)
    study.study["claims"] = [{"says": "A is above C.", "above": ["A", "C"]}, {"says": "All is well."}]
    numbers, grid = dict(tables(study.load()))["claims"]
    assert numbers["verdict"].tolist() == [CONFIRMED, UNCHECKED]
    assert numbers["columns"].tolist() == numbers["columns_alike"].tolist() == [2, 0]
    assert numbers["numbers"][0].startswith("Digits, dir: A 80.00, C 55.07: +24.93 points")
    texts = [(name, [entry.text for entry in row]) for name, row in grid.rows]
    assert texts[1] == ("All is well.", [UNCHECKED, "no rule can check this sentence"])


def test_prose_cannot_be_checked(make_study):
    actual = verdict_on(study_of(make_study, ROWS))
    assert (actual.verdict, actual.rule, actual.numbers) == (UNCHECKED, "no rule can check this sentence", [])


@pytest.mark.parametrize(
    ("claim", "expected"),
    [
        ({"above": ["A", ["C", "MOON"]], "columns": ["dir", "beta"]}, INCONCLUSIVE),  # A is above C
        ({"above": ["C", ["A", "MOON"]], "columns": ["dir", "beta"]}, REFUTED),
        ({"above": ["C", ["A", "MOON"]], "columns": ["dir", "beta"], "most": True}, INCONCLUSIVE),
    ],
)
def test_what_a_run_lacks_may_refute_a_claim_but_does_not_confirm_it(make_study, claim, expected):
    actual = verdict_on(study_of(make_study, ROWS), **claim)
    assert (actual.verdict, len(actual.columns)) == (expected, 2)
    assert actual.why == ("results are missing" if expected == INCONCLUSIVE else "")
    assert actual.numbers[1] == "not part of this run: MOON and beta"


@pytest.mark.parametrize(
    ("claim", "lacks", "expected"),
    [
        ({"last": "C"}, "1 printed column and 1 printed row", INCONCLUSIVE),
        ({"leads": "B"}, "1 printed column and 1 printed row", REFUTED),
        ({"last": "C", "rows": ["A", "B", "C"]}, "1 printed column", INCONCLUSIVE),
        ({"above": ["A", "C"]}, "1 printed column", INCONCLUSIVE),
        ({"above": ["A", "C"], "columns": ["dir", "hom"]}, None, CONFIRMED),
        ({"above": ["all", "C"], "columns": ["dir", "hom"]}, "1 printed row", INCONCLUSIVE),
        ({"above": ["A", "C"], "metric": "std_clients"}, "1 printed column", INCONCLUSIVE),
    ],
)
def test_printed_columns_and_rows_that_a_run_lacks_leave_a_claim_open(make_study, claim, lacks, expected):
    study = study_of(make_study, ROWS)
    for row, heterogeneity in (("A", "dir"), ("A", "beta"), ("MOON", "dir")):
        study.prints(row, "80", heterogeneity=heterogeneity)
    actual = verdict_on(study, **claim)
    assert actual.verdict == expected
    assert [text for text in actual.numbers if "not part" in text] == (
        [f"not part of this run: {lacks}"] if lacks else []
    )


@pytest.mark.parametrize("claim", [{"above": ["A", ["MOON"]]}, {"leads": "MOON"}, {"leads": "A", "columns": ["beta"]}])
def test_a_claim_of_which_nothing_is_left(make_study, claim):
    actual = verdict_on(study_of(make_study, ROWS), **claim)
    assert (actual.verdict, actual.why) == (INCONCLUSIVE, "results are missing")
    assert actual.numbers[0].startswith("not part of this run: ")


def test_the_best_other_row_need_not_be_the_same_everywhere(make_study):
    rows = {"A": ([0.8], [0.9]), "B": ([0.75], [0.5]), "C": ([0.5], [0.6])}
    study = study_of(make_study, rows, samples=[2000])
    actual = verdict_on(study, grows=["A", "others"])
    assert actual.verdict == CONFIRMED  # from 5 over B to 30 over C
    assert "A over others 5.00 → 29.93" in actual.numbers[0]
    assert verdict_on(study, shrinks=["A", ["B", "C"]]).verdict == REFUTED


def test_no_claims_no_verdicts(make_study):
    assert verdicts(study_of(make_study, ROWS).load()) == []


def test_a_column_without_cells_leaves_it_open_but_one_against_it_decides(make_study):
    rows = ROWS | {"A": ([0.8, 0.9], None)}
    assert verdict_on(study_of(make_study, rows), leads="A").verdict == INCONCLUSIVE
    assert verdict_on(study_of(make_study, ROWS | {"A": ([0.1, 0.1], None)}), leads="A").verdict == REFUTED


def test_a_rival_that_is_not_finished_may_still_win(make_study):
    study = study_of(make_study, {"A": ([0.9, 0.9], [0.9, 0.9]), "B": ([0.5, 0.5], None), "C": ([0.4] * 2, [0.4] * 2)})
    assert verdict_on(study, leads="A").verdict == CONFIRMED  # B was never planned in the second column
    study.without("b", "hom", 0, "not at hand")
    actual = verdict_on(study, leads="A")
    assert actual.verdict == INCONCLUSIVE
    assert actual.numbers[0].startswith("Digits, hom: A 90.00, C 40.07: +49.93 points")
    assert actual.numbers[0].endswith(", no final number for B")
    assert "Digits, hom: no final number for B" in verdict_on(study, within=["B", 2]).numbers


def test_a_rival_that_diverged_does_not_count(make_study):
    study = study_of(make_study, {"A": ([0.9, 0.9], [0.9, 0.9]), "B": ([0.5, 0.5], [0.5, 0.5])})
    study.method("c", title="C")
    for seed in (0, 1, 2):
        study.cell("c", "dir", seed, {1: [1.0, 1.0]}, status="diverged", reason="no")
    assert verdict_on(study, leads="A").verdict == CONFIRMED
    assert verdict_on(study, leads="C").verdict == INCONCLUSIVE


def test_a_lead_of_a_few_test_images_is_none(make_study):
    rows = {"A": ([0.8, 0.8],), "B": ([0.7, 0.7],)}
    for n, expected in ((10, INCONCLUSIVE), (90, CONFIRMED)):  # two images of twenty, or 18 of 180
        study = study_of(make_study, rows, columns=("dir",), samples=(n, n))
        assert verdict_on(study, leads="A").verdict == expected


def test_one_column_cannot_grow(make_study):
    rows = {"A": ([0.9, 0.9],), "B": ([0.5, 0.5],)}
    assert verdict_on(study_of(make_study, rows, columns=("dir",)), grows=["A", "B"]).verdict == INCONCLUSIVE


def test_a_spread_is_better_where_it_is_low(make_study):
    study = make_study(seeds=[0, 1, 2])
    for name, spreads in (("A", (0.1, 0.11, 0.12)), ("B", (0.2, 0.2, 0.23))):
        add_row(study, name, [{1: [0.5 - spread, 0.5 + spread]} for spread in spreads])
    assert verdict_on(study, leads="A", metric="std_clients").verdict == CONFIRMED
    assert verdict_on(study, above=["B", "A"], metric="std_clients").verdict == REFUTED
    assert verdict_on(study, leads="A", metric=["accuracy", "std_clients"]).verdict == INCONCLUSIVE


def test_a_printed_spread_counts_in_the_direction_of_an_improvement(make_study):
    study = make_study(seeds=[0, 1, 2])
    for name, spreads, printed in (("A", (0.1, 0.2, 0.15), "5"), ("B", (0.13, 0.18, 0.16), "8")):
        study.prints(name, printed, metric="std_clients")
        add_row(study, name, [{1: [0.5 - spread, 0.5 + spread]} for spread in spreads])
    actual = verdict_on(study, above=["A", "B"], metric="std_clients")
    assert actual.verdict == INCONCLUSIVE
    assert "A 15.00, B 15.67: +0.67 points" in actual.numbers[0] and "printed +3.00" in actual.numbers[0]


def test_columns_are_those_of_the_accuracy_table(make_study):
    study = make_study(seeds=[0, 1, 2], show=[{"table": "accuracy", "domains": True}])
    for name, values in (("A", [0.9, 0.1]), ("B", [0.5, 0.15])):
        add_row(study, name, [{1: [value + added for value in values]} for added in NOISE[name]], domains=["x", "y"])
    actual = verdict_on(study, leads="A")
    verdict_of = {line.column.split(", ")[-1]: line.verdict for line in actual.columns}
    assert verdict_of == {"x": CONFIRMED, "y": REFUTED, "Avg.": CONFIRMED}
    assert verdict_on(study, leads="A", columns=["avg"]).verdict == CONFIRMED
    study.study["show"] = [{"table": "accuracy"}]
    assert verdict_on(study, leads="A").verdict == CONFIRMED


def test_an_experiment_without_cells(make_study):
    study = make_study(seeds=[0])
    study.method("a", title="A")
    assert verdict_on(study, leads="A").verdict == INCONCLUSIVE


def test_where_a_paper_prints_numbers_only_its_rows_compete(make_study):
    """B, a variant of ours, is above A in the second column, of which the paper prints A and C."""
    study = study_of(make_study, {"A": ([0.8], [0.8]), "B": ([0.7], [0.9]), "C": ([0.6], [0.7])}, samples=[2000])
    assert verdict_on(study, leads="A").verdict == REFUTED
    for row in ("A", "C", "Averaged"):
        study.prints(row, "70", heterogeneity="hom")
    assert verdict_on(study, leads="A").verdict == CONFIRMED
    assert verdict_on(study, within=["C", 2]).verdict == REFUTED  # third in one column, second in the other


def test_rows_are_compared_where_both_were_planned(make_study):
    study = study_of(make_study, {"A": ([0.8], [0.8]), "B": ([0.7], None)}, samples=[2000])
    actual = verdict_on(study, above=["A", "B"])
    assert (actual.verdict, len(actual.numbers)) == (CONFIRMED, 1)
    study.without("b", "hom", 0, "not at hand")
    assert verdict_on(study, above=["A", "B"]).verdict == INCONCLUSIVE


CURVES = {"A": [0.2, 0.5, 0.6, 0.7, 0.8], "B": [0.4, 0.6, 0.3, 0.7, 0.6]}
"""Accuracies after rounds 1 to 5."""


def curves_of(make_study, **study):
    study = make_study(seeds=[0, 1, 2], **study)
    for name, curve in CURVES.items():
        by_seed = [
            {i + 1: [value + added * (i + 1) ** 2 / 5] * 2 for i, value in enumerate(curve)} for added in NOISE[name]
        ]
        add_row(study, name, by_seed, rounds=5)
    return study


@pytest.mark.parametrize(
    ("claim", "expected"),
    [
        ({"leads": "A", "metric": "accuracy@1"}, CONFIRMED),
        ({"leads": "B", "metric": "accuracy@0.2"}, CONFIRMED),
        ({"leads": "B", "metric": ["accuracy@0.2", "accuracy@0.4"]}, CONFIRMED),
        ({"leads": "B", "metric": ["accuracy@0.2", "accuracy@0.6"]}, REFUTED),
        ({"rises": ["A", "B"], "metrics": ["accuracy@0.2", "accuracy@1"]}, CONFIRMED),
        ({"falls": "B", "metrics": ["accuracy@0.4", "accuracy@0.6"]}, CONFIRMED),
        ({"falls": "A", "metrics": ["accuracy@0.4", "accuracy@0.6"]}, REFUTED),
        ({"leads": "A", "metric": "roughness"}, CONFIRMED),
        ({"leads": "B", "metric": "rounds"}, INCONCLUSIVE),  # on every seed at 55 % in round 2, A in round 3
    ],
)
def test_claims_about_curves(make_study, claim, expected):
    study = curves_of(make_study, show=[{"table": "rounds", "target": 55}])
    assert verdict_on(study, **claim).verdict == expected


BEFORE = 0.1
"""Accuracy before round 1."""


def barely_trained(make_study, score="received"):
    """A and B have learned, B little; C and D, of small spread, are less than 1.8 points above untrained models.

    Models that are scored after local training have no score before round 1, but what clients receive then has.
    """
    study = make_study(seeds=[0, 1, 2])
    means = {"A": (0.7, 0.9), "B": (0.1, 0.14), "C": (0.115, 0.117), "D": (0.1, 0.1)}
    before = {0: [BEFORE] * 2}
    also = {"accuracy_received": before} if score == "trained" else {}
    for name, (one, other) in means.items():
        curves = [{1: [one + added / 10, other - added / 20]} for added in NOISE[name]]
        if score != "trained":
            curves = [before | curve for curve in curves]
        add_row(study, name, curves, score=score, also=also, rounds=1)
    return study


@pytest.mark.parametrize(
    ("claim", "expected", "why"),
    [
        ({"above": ["A", "D"]}, CONFIRMED, ""),
        ({"above": ["B", "C"]}, CONFIRMED, ""),  # 12 and 11.6
        ({"above": ["C", "D"]}, INCONCLUSIVE, TOO_EARLY),
        ({"above": ["D", "C"]}, INCONCLUSIVE, TOO_EARLY),
        ({"leads": "A"}, CONFIRMED, ""),
        ({"last": "D"}, INCONCLUSIVE, TOO_EARLY),  # of its three rivals C has not learned either
        ({"above": ["B", "A"], "metric": "std_clients"}, CONFIRMED, ""),
        ({"within": ["A", 1], "metric": "std_clients"}, REFUTED, ""),  # B has learned
        ({"above": ["A", ["C", "D"]], "metric": "std_clients"}, INCONCLUSIVE, TOO_EARLY),
        ({"rises": "A", "metrics": ["accuracy@0.5", "accuracy@1"]}, INCONCLUSIVE, MISSING),  # 0.5 is before round 1
        ({"rises": "C", "metrics": ["accuracy@0.5", "accuracy@1"]}, INCONCLUSIVE, TOO_EARLY),
        ({"above": ["A", "B"], "metric": "accuracy@0.5"}, INCONCLUSIVE, TOO_EARLY),  # that is before round 1
    ],
)
def test_models_that_have_barely_learned_decide_nothing(make_study, claim, expected, why):
    actual = verdict_on(barely_trained(make_study), **claim)
    assert (actual.verdict, actual.why) == (expected, why)


def test_a_lead_that_starts_between_untrained_models_decides_nothing(make_study):
    study = make_study(seeds=[0, 1, 2], heterogeneity={"dir": "dir", "hom": "hom"})
    for name, accuracies in {"A": (0.11, 0.8), "B": (0.105, 0.3)}.items():
        for column, accuracy in zip(("dir", "hom"), accuracies, strict=True):
            ends = [[accuracy + noise / 10, accuracy - noise / 20] for noise in NOISE[name]]
            add_row(study, name, [{0: [0.1, 0.1], 1: end} for end in ends], column)
    actual = verdict_on(study, grows=["A", "B"], columns=["dir", "hom"])
    assert (actual.verdict, actual.why) == (INCONCLUSIVE, TOO_EARLY)
    assert verdict_on(study, above=["A", "B"], columns=["hom"]).verdict == CONFIRMED


def test_rows_that_stop_at_different_rounds_share_one_mark_for_a_target_that_they_miss(make_study):
    study = make_study(seeds=[0, 1, 2], show=[{"table": "rounds", "target": 90}])
    for name, last in (("A", 2), ("B", 4)):
        curves = [{t: [0.1 + 0.1 * t + added / 10] * 2 for t in range(last + 1)} for added in NOISE[name]]
        add_row(study, name, curves, rounds=last)
    actual = verdict_on(study, above=["A", "B"], metric="rounds")
    assert (actual.why, actual.columns[0].numbers) == (TOO_EARLY, "A >4, B >4: not reached")


def test_models_that_are_scored_as_trained_have_to_learn_as_much(make_study):
    actual = verdict_on(barely_trained(make_study, "trained"), above=["C", "D"])
    assert (actual.verdict, actual.why) == (INCONCLUSIVE, TOO_EARLY)


def test_a_comparison_of_barely_trained_models_shows_their_numbers(make_study):
    (column,) = verdict_on(barely_trained(make_study), above=["C", "D"]).columns
    assert column.numbers == "C 11.60, D 10.00: barely trained models"


def test_a_target_that_no_seed_reaches_is_no_number_of_rounds(make_study):
    """A is at 75 % in round 5, B never."""
    late = "A 5.00, B >5: +1.00 rounds (3 seeds)", "A >5, B >5: not reached"
    for target, numbers in zip((75, 90), late, strict=True):
        study = curves_of(make_study, show=[{"table": "rounds", "target": target}])
        actual = verdict_on(study, above=["A", "B"], metric="rounds")
        assert (actual.verdict, actual.columns[0].numbers) == (INCONCLUSIVE, numbers)
        assert actual.why == (TOO_EARLY if target == 90 else SMALL)
        assert actual.rule == "the number of rounds to the target of A is better than that of B in every column."


def test_bytes_are_compared_without_chance(make_study):
    study = make_study(seeds=[0])
    for name, up in (("A", 100), ("B", 100), ("C", 300)):
        study.method(name.lower(), title=name)
        sent = {"bytes_up": {1: [up, up]}, "bytes_down": {1: [0, 0]}}
        study.cell(name.lower(), "dir", 0, {1: [0.5, 0.5]}, traffic=False, also=sent)
    assert verdict_on(study, above=["A", "C"], metric="bytes").verdict == CONFIRMED
    assert verdict_on(study, above=["C", "B"], metric="bytes").verdict == REFUTED
    assert verdict_on(study, above=["A", "B"], metric="bytes").verdict == INCONCLUSIVE
    assert verdict_on(study, difference=["A", "C"], metric="bytes", by=[-70, 70], unit="percent").verdict == CONFIRMED


def test_phases_are_compared_by_their_seconds(make_study):
    study = make_study(seeds=[0, 1, 2], show=[{"table": "phases"}])
    study.method("a", title="A")
    for seed, more in enumerate((0.0, 0.1, 0.05)):
        seconds = {"train": 4.0 + more, "phases": {"solve": 0.1}, "evaluate": 1.0 + 2 * more, "total": 6.0}
        study.cell("a", "dir", seed, {1: [0.5, 0.5]}, costs={"seconds": seconds})
    assert verdict_on(study, above=["Solve", "Local training"], metric="seconds").verdict == CONFIRMED
    share = {"above": ["Solve", "Local training"], "by": [90, None], "unit": "percent"}
    assert verdict_on(study, metric="seconds", **share).verdict == CONFIRMED
