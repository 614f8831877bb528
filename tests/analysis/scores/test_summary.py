from collections import Counter
from itertools import product

import pandas as pd
import pytest

from fedgrid.analysis.scores.points import client_series, scored
from fedgrid.analysis.scores.summary import cell_scores, computed_scores, summary

RECEIVED, TRAINED = "accuracy_received", "accuracy_trained"
ON_VALIDATION = "validation_accuracy_received", "validation_accuracy_trained"


@pytest.fixture(scope="module")
def results(common_toy):
    return common_toy.load()


def entry(table, label, heterogeneity):
    return table[(table["label"] == label) & (table["heterogeneity"] == heterogeneity)].iloc[0]


def test_means_and_spread_over_clients_by_hand(results):
    scores = cell_scores(results)
    one = scores.query("label == 'local' and seed == 2").iloc[0]  # clients 0.5 and 0.62 with 10 and 30 test samples
    assert one["accuracy"] == pytest.approx(0.56)
    assert one["accuracy_weighted"] == pytest.approx((5 + 18.6) / 40)
    assert one["std_clients"] == pytest.approx(0.06)
    assert one["round"] == 2


def test_means_and_spread_over_seeds_by_hand(results):
    row = entry(summary(results), "local", "dir")  # 0.55, 0.555, 0.56
    assert row["accuracy"] == pytest.approx(0.555)
    assert row["accuracy_std_seeds"] == pytest.approx(0.005)
    assert row["std_clients"] == pytest.approx((0.05 + 0.055 + 0.06) / 3)
    assert row["accuracy_weighted_std_seeds"] == pytest.approx(0.0075)
    assert (row["seeds"], row["seeds_failed"], row["score"]) == (3, 0, "accuracy_received")


def test_statuses_ranks_and_support(results):
    table = summary(results)
    assert entry(table, "local", "hom")["status"] == "missing"
    bad = entry(table, "ditto", "hom")
    assert (bad["status"], bad["seeds"], bad["seeds_failed"]) == ("diverged", 2, 1)
    assert pd.isna(bad["p_value"]) and pd.isna(bad["rank"])
    assert [entry(table, label, "dir")["rank"] for label in ("ditto", "local", "fedavg")] == [1, 2, 3]
    assert entry(table, "ditto", "dir")["supported"] and table["supported"].sum() == 1
    over = entry(table, "local", "dir")  # the leads of Ditto over Local are 0.3, 0.3025 and 0.305
    assert (over["difference"], over["common"]) == (pytest.approx(0.3025), 3)
    assert over["images"] == pytest.approx((12 + 12.15 + 12.3) / 3)  # of 10 and 30 test samples


def test_study_order(results):
    table = summary(results)
    assert table["label"].tolist() == ["local"] * 2 + ["fedavg"] * 2 + ["ditto"] * 2
    assert table["heterogeneity"].tolist() == ["dir", "hom"] * 3


def test_a_method_without_the_studys_metric_is_unscored(toy):
    toy.study["score"] = "global"
    table = summary(toy.load())
    assert entry(table, "local", "dir")["status"] == "unscored"
    assert entry(table, "fedavg", "dir")["status"] == "ok"
    assert entry(table, "fedavg", "dir")["rank"] == 1 and not table["supported"].any()


def test_a_study_without_any_score_has_a_table(toy):
    toy.study["score"] = "trained"
    table = summary(toy.load())
    assert table["rank"].isna().all() and not table["supported"].any()


def test_last5_averages_five_rounds_without_the_untrained_model(make_study):
    study = make_study(at="last5", seeds=[0]).cell("m", "dir", 0, {t: [t / 10, t / 10] for t in (0, 1, 2, 3, 4, 6, 8)})
    study.cell("short", "dir", 0, {0: [0.0, 0.0], 1: [0.2, 0.4], 2: [0.4, 0.2]})
    table = summary(study.load())
    assert entry(table, "m", "dir")["accuracy"] == pytest.approx((2 + 3 + 4 + 6 + 8) / 50)
    assert entry(table, "short", "dir")["accuracy"] == pytest.approx(0.3)
    assert entry(table, "short", "dir")["std_clients"] == pytest.approx(0.0)  # both clients average 0.3 over rounds


def test_an_untrained_study_is_scored_at_round_zero(make_study):
    study = make_study(seeds=[0]).cell("m", "dir", 0, {0: [0.1, 0.3]})
    assert summary(study.load())["accuracy"].tolist() == pytest.approx([0.2])


def test_clients_without_test_data_do_not_count(make_study):
    study = make_study(seeds=[0]).cell("m", "dir", 0, {1: [0.8, None, 0.6]}, samples=[1, 0, 3])
    row = summary(study.load()).iloc[0]
    assert (row["accuracy"], row["accuracy_weighted"]) == pytest.approx((0.7, 0.65))


def test_a_client_that_sat_the_round_out_counts_with_the_model_that_it_holds(make_study):
    study = make_study(seeds=[0])
    held = {0: [0.1, 0.1], 1: [0.5, 0.6], 2: [0.7, 0.3]}
    study.cell("m", "dir", 0, {1: [0.8, None], 2: [None, 0.4]}, score="trained", also={RECEIVED: held})
    row = summary(study.load()).iloc[0]
    assert row["accuracy"] == pytest.approx((0.7 + 0.4) / 2)
    rounds = client_series(study.load()).set_index(["round", "client"])["accuracy"].to_dict()
    assert rounds == {(1, 0): 0.8, (1, 1): 0.6, (2, 0): 0.7, (2, 1): 0.4}


def test_one_seed_has_no_spread_and_no_winner(make_study):
    study = make_study(seeds=[7])
    for label, value in (("a", 0.9), ("b", 0.2)):
        study.cell(label, "dir", 7, {1: [value, value]})
    table = summary(study.load())
    assert table["rank"].tolist() == [1, 2]
    assert table["accuracy_std_seeds"].isna().all() and not table["supported"].any()


def by_round(results):
    """Mean accuracy over clients, by round, of the only cell."""
    return client_series(results).groupby("round")["accuracy"].mean().to_dict()


def test_the_validated_model_is_the_better_one_on_validation_images_and_the_received_one_of_equals(make_study):
    study = make_study(seeds=[0], score="validated")
    received = {t: [0.1 * t, 0.1 * t] for t in range(5)}
    trained = {t: [0.5 + 0.1 * t, 0.5 + 0.1 * t] for t in range(1, 5)}
    # after round 1 local training helps, after 2 it harms, after 3 both have the same mean, after 4 nobody knows
    on_validation = {1: [0.2, 0.4], 2: [0.6, 0.9], 3: [0.7, 0.1]}, {1: [0.5, 0.3], 2: [0.9, 0.5], 3: [0.1, 0.7]}
    also = {RECEIVED: received, **dict(zip(ON_VALIDATION, on_validation, strict=True))}
    study.cell("m", "dir", 0, trained, score="trained", also=also)
    assert by_round(study.load()) == pytest.approx({1: 0.6, 2: 0.2, 3: 0.3})
    row = summary(study.load()).iloc[0]
    assert (row["score"], row["accuracy"]) == ("accuracy_validated", pytest.approx(0.3))


def test_before_training_the_validated_model_is_the_received_one(make_study):
    study = make_study(seeds=[0], score="validated")
    study.cell("m", "dir", 0, {0: [0.1, 0.3]}, also={ON_VALIDATION[0]: {0: [0.0, 0.0]}})
    assert by_round(study.load()) == pytest.approx({0: 0.2})


def test_the_validated_model_is_chosen_cell_by_cell(make_study):
    study = make_study(seeds=[0, 1], score="validated")
    for seed, better in enumerate((0.9, 0.1)):
        also = {RECEIVED: {2: [0.2, 0.2]}, ON_VALIDATION[0]: {2: [0.5]}, ON_VALIDATION[1]: {2: [better]}}
        study.cell("m", "dir", seed, {2: [0.4, 0.4]}, score="trained", also=also)
    assert cell_scores(study.load())["accuracy"].tolist() == pytest.approx([0.4, 0.2])


def test_idle_clients_count_on_validation_images_as_on_test_images(make_study):
    study = make_study(seeds=[0], score="validated")
    # client 1 is idle: with the model that it holds the mean after training is 0.55, without it 0.4 < 0.5
    also = {RECEIVED: {1: [0.1, 0.2]}, ON_VALIDATION[0]: {1: [0.3, 0.7]}, ON_VALIDATION[1]: {1: [0.4, None]}}
    study.cell("m", "dir", 0, {1: [0.6, None]}, score="trained", also=also)
    assert by_round(study.load()) == pytest.approx({1: (0.6 + 0.2) / 2})
    study.study["score"] = "trained"
    on_validation = scored(study.load(), "validation").set_index("client")["accuracy"].to_dict()
    assert on_validation == {0: 0.4, 1: 0.7}


@pytest.mark.parametrize("asked", [{"score": "validated"}, {"at": "validation"}])
def test_a_cell_without_validation_images_has_no_validated_score(make_study, asked):
    study = make_study(seeds=[0], **asked)
    for label in ("with", "without"):
        also = {ON_VALIDATION[0]: {1: [0.5]}} if label == "with" else {}
        study.cell(label, "dir", 0, {1: [0.5, 0.7]}, also=also)
    table = summary(study.load()).set_index("label")
    assert table["status"].to_dict() == {"with": "ok", "without": "unscored"}
    assert table.loc["with", "accuracy"] == pytest.approx(0.6)


@pytest.mark.parametrize("asked", [{"score": "validated"}, {"at": "validation"}])
def test_a_study_without_validation_images_has_a_table(make_study, asked):
    study = make_study(seeds=[0], **asked).cell("m", "dir", 0, {1: [0.5, 0.7]})
    assert summary(study.load())["status"].tolist() == ["unscored"]


def validated_rounds(make_study, on_validation, **head):
    """The study of one cell whose clients have 0.1, 0.2, … on test images after rounds 1, 2, …"""
    study = make_study(seeds=[0], at="validation")
    rounds = {t: [t / 10, t / 10] for t in on_validation}
    study.cell("m", "dir", 0, rounds, also={ON_VALIDATION[0]: on_validation}, **head)
    return cell_scores(study.load()).iloc[0]


def test_the_round_that_is_best_on_validation_images_gives_the_test_accuracy(make_study):
    score = validated_rounds(make_study, {0: [1, 1], 1: [0.2, 0.2], 2: [0.9, 0.7], 3: [0.5, 0.7], 4: [0.1, 0.1]})
    assert (score["round"], score["accuracy"]) == (2, pytest.approx(0.2))  # nor the best on test images, nor round 0


def test_of_equal_rounds_the_first_counts_in_whichever_order_clients_are_summed(make_study):
    score = validated_rounds(make_study, {1: [0.1, 0.1], 2: [0.7, 0.2, 0.1], 3: [0.1, 0.2, 0.7], 4: [0.2, 0.7, 0.1]})
    assert score["round"] == 2


def test_an_untrained_study_is_validated_at_round_zero(make_study):
    assert validated_rounds(make_study, {0: [0.3, 0.3]})["round"] == 0


def test_the_round_is_chosen_by_the_model_that_is_scored(make_study):
    study = make_study(seeds=[0], at="validation")
    for label, point in (("a", "received"), ("b", "trained")):
        chosen = dict(zip(ON_VALIDATION, ({1: [0.9], 2: [0.1]}, {1: [0.1], 2: [0.9]}), strict=True))
        also = {**chosen, RECEIVED: {1: [0.3], 2: [0.4]}, TRAINED: {1: [0.5], 2: [0.6]}}
        study.cell(label, "dir", 0, {}, score=point, also=also)
    assert cell_scores(study.load())["accuracy"].tolist() == pytest.approx([0.3, 0.6])


def test_rounds_are_chosen_by_method_and_seed(make_study):
    study = make_study(seeds=[0, 1], at="validation")
    for seed, best in enumerate((1, 3)):
        on_validation = {t: [0.9 if t == best else 0.5] for t in (1, 2, 3)}
        study.cell("m", "dir", seed, {t: [t / 10] for t in (1, 2, 3)}, also={ON_VALIDATION[0]: on_validation})
    assert cell_scores(study.load())["accuracy"].tolist() == pytest.approx([0.1, 0.3])
    assert summary(study.load())["accuracy"].tolist() == pytest.approx([0.2])


def test_scores_of_cells_are_computed_once_for_each_results(common_toy, monkeypatch):
    results, counted = common_toy.load(), Counter()

    def computed(of, domains, real=computed_scores):
        counted[of, domains] += 1
        return real(of, domains)

    monkeypatch.setattr("fedgrid.analysis.scores.summary.computed_scores", computed)
    other = results.rescored("trained")
    for of in (results, other):
        summary(of)
        for domains in (False, True, False, True):
            cell_scores(of, domains)
    assert counted == dict.fromkeys(product((results, other), (False, True)), 1)


def test_callers_cannot_change_each_others_scores(common_toy):
    results = common_toy.load()
    before = cell_scores(results)
    changed = cell_scores(results)
    changed["accuracy"] = 0.0
    changed.loc[0, "status"] = "failed"
    pd.testing.assert_frame_equal(cell_scores(results), before)
