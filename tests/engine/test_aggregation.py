"""Robust rules of aggregation on stacks that are small enough for a hand."""

import pytest
import torch

from fedgrid.engine.federation.aggregation import aggregate, krum_scores, squared_distances
from fedgrid.settings import Training, aggregation_problem, krum_problem
from fedgrid.tree import Tree

FIVE = torch.tensor([[1.0, 50.0], [2.0, 40.0], [3.0, 30.0], [4.0, 20.0], [100.0, -7.0]])
LINE = torch.tensor([[0.0], [1.0], [2.0], [4.0], [50.0]])
"Squared distances of the first: 1, 4, 16, 2500; of the second: 1, 1, 9, 2401; of the third: 1, 4, 4, 2304."


def combined(rule, stack, share=None, weights=None):
    number = len(next(iter(stack.values())) if isinstance(stack, dict) else stack)
    weights = torch.full((number,), 1 / number, dtype=torch.float64) if weights is None else weights
    return aggregate(stack, weights, Training(aggregation=rule, assumed_malicious=share))


@pytest.mark.parametrize(
    ("rule", "share", "by_hand"),
    [
        ("mean", None, [22.0, 26.6]),
        ("median", None, [3.0, 30.0]),
        ("trimmed", 0.2, [3.0, 30.0]),  # (2 + 3 + 4) / 3, (40 + 30 + 20) / 3
        ("trimmed", 0.21, [3.0, 30.0]),  # two at either end: the median
        ("trimmed", 0.0, [22.0, 26.6]),
    ],
)
def test_rules_by_coordinate(rule, share, by_hand):
    torch.testing.assert_close(combined(rule, FIVE, share), torch.tensor(by_hand))


def test_a_trimmed_mean_is_more_than_the_median():
    values = torch.tensor([[-9.0], [1.0], [2.0], [6.0], [70.0]])
    assert combined("trimmed", values, 0.2).item() == 3.0
    assert combined("median", values).item() == 2.0


def test_of_two_middle_values_the_median_is_their_mean():
    assert combined("median", torch.tensor([[8.0], [1.0], [2.0], [5.0]])).item() == 3.5
    assert combined("median", torch.tensor([[7.0], [7.0], [7.0], [1.0]])).item() == 7.0


def test_trimming_leaves_the_median_of_few():
    # ⌈0.45·3⌉ = 2 at either end would leave nothing
    assert combined("trimmed", torch.tensor([[1.0], [5.0], [6.0]]), 0.45).item() == 5.0


def test_krum_by_hand():
    scores = krum_scores(squared_distances(LINE), assumed=1)  # of each the two nearest others
    assert scores.tolist() == [1 + 4, 1 + 1, 1 + 4, 4 + 9, 46**2 + 48**2]
    assert combined("krum", LINE, 0.2).item() == 1.0
    assert combined("multi-krum", LINE, 0.2).item() == (0 + 1 + 2 + 4) / 4


def test_krum_takes_the_first_of_equals():
    pairs = torch.tensor([[9.0], [10.0], [0.0], [1.0], [500.0], [-300.0]])
    scores = krum_scores(squared_distances(pairs), assumed=3)
    assert scores.tolist()[:4] == [1.0] * 4
    assert combined("krum", pairs, 0.49).item() == 9.0


def test_krum_chooses_whole_uploads():
    tree = Tree(a=torch.tensor([[0.0], [0.0], [0.0], [9.0], [0.5]]), b=torch.tensor([5.0, 0.0, 1.0, 0.0, 90.0]))
    chosen = combined("krum", tree, 0.2)  # squared distances of the second: 25, 1, 81; of the third: 16, 1, 82
    assert (chosen.a.item(), chosen.b.item()) == (0.0, 1.0)


def test_with_fewer_uploads_than_krum_is_made_for_the_nearest_counts():
    assert combined("krum", torch.tensor([[3.0]]), 0.4).item() == 3.0
    assert combined("krum", torch.tensor([[3.0], [5.0]]), 0.4).item() == 3.0
    assert combined("krum", torch.tensor([[0.0], [5.0], [6.0]]), 0.4).item() == 5.0


@pytest.mark.parametrize("rule", ["median", "trimmed", "krum", "multi-krum"])
def test_robust_rules_count_clients_equally(rule):
    weights = torch.tensor([0.9, 0.025, 0.025, 0.025, 0.025], dtype=torch.float64)
    assert torch.equal(combined(rule, FIVE, 0.2, weights), combined(rule, FIVE, 0.2))
    assert not torch.equal(combined("mean", FIVE, weights=weights), combined("mean", FIVE))


@pytest.mark.parametrize("value", [torch.nan, torch.inf, -torch.inf])
@pytest.mark.parametrize("rule", ["median", "trimmed", "krum", "multi-krum"])
def test_an_upload_that_is_not_finite_is_borne(rule, value):
    stack = LINE.clone()
    stack[1] = value
    assert combined(rule, stack, 0.2).isfinite().all()
    assert not combined("mean", stack).isfinite().any()


def test_what_is_not_finite_counts_as_the_largest():
    stack = torch.tensor([[1.0], [torch.nan], [2.0], [5.0], [torch.inf]])
    assert combined("median", stack).item() == 5.0
    assert combined("krum", stack, 0.2).item() == 2.0  # 1 + 9, of 1 + 16 and 9 + 16


def test_a_single_upload_and_equal_ones_come_back_bit_for_bit():
    value = torch.rand(3, dtype=torch.float32)
    for rule in ("median", "trimmed", "krum", "multi-krum"):
        assert torch.equal(combined(rule, value.unsqueeze(0), 0.2), value)
    assert torch.equal(combined("krum", value.expand(5, 3), 0.2), value)


def test_more_malicious_clients_than_a_rule_can_bear_are_refused():
    assert "fewer than half" in aggregation_problem(Training(malicious=0.5, aggregation="trimmed"))
    assert "fewer than half" in aggregation_problem(Training(malicious=0.6, aggregation="krum"))
    assert not aggregation_problem(Training(malicious=0.6, aggregation="krum", assumed_malicious=0.4))
    assert not aggregation_problem(Training(malicious=0.6, aggregation="median"))


def test_krum_takes_twice_as_many_clients_and_three():
    krum = Training(malicious=0.2, aggregation="krum")
    assert "at least 2·1 + 3 participants to guard against 1, and a round has 4" in krum_problem(krum, 4)
    assert not krum_problem(krum, 5)
    assert krum_problem(krum, 6)  # ⌈1.2⌉ = 2 of 6
    assert not krum_problem(Training(malicious=0.2, aggregation="median"), 4)
