import pandas as pd
import pytest

from fedgrid.analysis.scores import cell_scores, client_series, summary


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
    assert (row["seeds"], row["seeds_failed"], row["score"]) == (3, 0, "accuracy_personal")


def test_statuses_ranks_and_support(results):
    table = summary(results)
    assert entry(table, "local", "hom")["status"] == "missing"
    bad = entry(table, "ditto", "hom")
    assert (bad["status"], bad["seeds"], bad["seeds_failed"]) == ("diverged", 2, 1)
    assert pd.isna(bad["p_value"]) and pd.isna(bad["rank"])
    assert [entry(table, label, "dir")["rank"] for label in ("ditto", "local", "fedavg")] == [1, 2, 3]
    assert table.loc[table["supported"], "label"].tolist() == ["ditto"]


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
    study = make_study(at="last5", seeds=[0])
    study.method("m")
    study.cell("m", "dir", 0, {t: [t / 10, t / 10] for t in (0, 1, 2, 3, 4, 6, 8)})
    study.method("short")
    study.cell("short", "dir", 0, {0: [0.0, 0.0], 1: [0.2, 0.4], 2: [0.4, 0.2]})
    table = summary(study.load())
    assert entry(table, "m", "dir")["accuracy"] == pytest.approx((2 + 3 + 4 + 6 + 8) / 50)
    assert entry(table, "short", "dir")["accuracy"] == pytest.approx(0.3)
    assert entry(table, "short", "dir")["std_clients"] == pytest.approx(0.0)  # both clients average 0.3 over rounds


def test_an_untrained_study_is_scored_at_round_zero(make_study):
    study = make_study(seeds=[0])
    study.method("m")
    study.cell("m", "dir", 0, {0: [0.1, 0.3]})
    assert summary(study.load())["accuracy"].tolist() == pytest.approx([0.2])


def test_clients_without_test_data_do_not_count(make_study):
    study = make_study(seeds=[0])
    study.method("m")
    study.cell("m", "dir", 0, {1: [0.8, None, 0.6]}, samples=[1, 0, 3])
    row = summary(study.load()).iloc[0]
    assert (row["accuracy"], row["accuracy_weighted"]) == pytest.approx((0.7, 0.65))


def test_a_client_that_sat_the_round_out_counts_with_the_model_that_it_holds(make_study):
    study = make_study(seeds=[0])
    study.method("m")
    held = {0: [0.1, 0.1], 1: [0.5, 0.6], 2: [0.7, 0.3]}
    study.cell("m", "dir", 0, {1: [0.8, None], 2: [None, 0.4]}, score="trained", personal=held)
    row = summary(study.load()).iloc[0]
    assert row["accuracy"] == pytest.approx((0.7 + 0.4) / 2)
    rounds = client_series(study.load()).set_index(["round", "client"])["accuracy"].to_dict()
    assert rounds == {(1, 0): 0.8, (1, 1): 0.6, (2, 0): 0.7, (2, 1): 0.4}


def test_one_seed_has_no_spread_and_no_winner(make_study):
    study = make_study(seeds=[7])
    for label, value in (("a", 0.9), ("b", 0.2)):
        study.method(label)
        study.cell(label, "dir", 7, {1: [value, value]})
    table = summary(study.load())
    assert table["rank"].tolist() == [1, 2]
    assert table["accuracy_std_seeds"].isna().all() and not table["supported"].any()
