"""The loop of plain torch by which averages of clients under Adam are seen to die."""

import re

import torch

from benchmarks import averages


def channels(lr, number=3):
    """On after each of some rounds of two clients with images at random, from the same first network."""
    torch.manual_seed(0)
    pixels, labels = torch.randn(64, 3, 32, 32), torch.arange(64) % 10
    found = averages.rounds(pixels, labels, list(torch.arange(64).split(32)), lr)
    return [next(found) for _ in range(number)]


def test_channels_stay_on_where_nothing_is_learned_and_die_at_a_wild_rate():
    assert min(channels(1e-9)) > 60
    assert max(channels(1.0)) < 20


def test_each_round_is_a_line(monkeypatch, capsys):
    monkeypatch.setattr(averages, "federation", lambda: (torch.randn(8, 3, 32, 32), torch.arange(8), [torch.arange(8)]))
    monkeypatch.setattr("sys.argv", ["averages", "--rounds", "2", "--lr", "1e-9"])
    averages.main()
    lines = capsys.readouterr().out.splitlines()
    assert all(re.fullmatch(r"round [12]: \d+ of 64 channels are on", line) for line in lines) and len(lines) == 2
