"""The benchmark of CFL's splits: what differs between its runs, and what its page says of them."""

import torch

from benchmarks import cfl_splits
from benchmarks.cfl_splits import Run, members, pairs, section

CLIENTS = {"partition": "dirichlet", "beta": 0.5, "clients": 4}
EAGER = {
    "data": "digits",
    "heterogeneity": [CLIENTS],
    "model": {"name": "mlp", "hidden": 16, "features": 8},
    "training": {"rounds": 2, "batch_size": 64, "eval_every": 2},
    "methods": {"cfl": {"eps1": 1e9, "eps2": 0.0, "t0": 1}},
}
TITLE = "Four clients"


def test_pairs_of_clients_by_hand():
    runs = [Run(0, [[0, 0, 0, 0], [0, 0, 1, 1]]), Run(1, [[0, 0, 0, 1], [0, 0, 2, 1]])]
    assert [run.first for run in runs] == [2, 1]
    assert pairs(runs) == (1, 1, 4)  # 0 and 1; 2 and 3 in the first run alone
    assert members([3, 0, 3, 1]) == [[0, 2], [1], [3]]
    text = section("Four", {"order of batches": runs})
    assert "| order of batches | 1 | 1 | {0 1}, {2}, {3} |" in text
    assert "first splits in round 2, 1; of 6 pairs of clients, 1 end up together in all runs, 1 in some, 4 in" in text


def test_a_run_that_never_splits_has_no_round():
    assert Run(0, [[0, 0], [0, 0]]).first is None
    assert "first splits in round –;" in section("Two", {"order": [Run(0, [[0, 0]])]})


def test_runs_differ_in_what_the_page_says(monkeypatch, tmp_path):
    starts = []

    def noting(cell, where):
        starts.append((where.seed, where.initial["head.weight"]))
        return Run(where.seed, [[0, 0, 1, 1]])

    monkeypatch.setattr(cfl_splits, "run", noting)
    runs = cfl_splits.runs_of(EAGER, (0, 1), tmp_path)
    assert {kind: [run.seed for run in some] for kind, some in runs.items()} == {
        "order of batches": [0, 1],
        "order and model": [0, 1],
    }
    (first, start), (free, other), (fixed, same) = starts
    assert (first, free, fixed) == (0, 1, 1)
    assert torch.equal(same, start) and not torch.equal(other, start)


def test_the_page(monkeypatch, tmp_path):
    monkeypatch.setattr(cfl_splits, "WORLDS", {TITLE: EAGER})
    threads = torch.get_num_threads()
    try:
        assert cfl_splits.main(["--out", str(tmp_path), "--seeds", "0", "1"]) == 0
    finally:
        torch.set_num_threads(threads)
    text = (tmp_path / "README.md").read_text(encoding="utf-8")
    assert f"## {TITLE}" in text and text.count("\n| order") == 4
    assert "first splits in round 2, 2;" in text  # t₀ = 1 is one round without a split
