"""The benchmark runs and its page says what was measured; nothing is timed here."""

import io
import json
import re
import tarfile

import numpy as np
import pandas as pd
import pytest
from earlier import make_earlier, trained_study

from benchmarks import forecast_error, papers, population, worker
from benchmarks.report import write
from benchmarks.throughput import CPU_VARIANTS, METHODS, SMALL, Worker


def assert_measured(actual):
    assert actual["train"] > 0 and actual["evaluate"] > 0 and actual["memory"] > 2**20


@pytest.mark.parametrize("kind", ["plain", "loop", "stacked"])
@pytest.mark.parametrize("method", METHODS)
def test_a_round_of_every_kind(kind, method, monkeypatch, capsys):
    """What the worker's process does: a round for the one line that it reads."""
    job = {"kind": kind, "method": method, "images": 60, "clients": 3}
    monkeypatch.setattr("sys.argv", ["worker", json.dumps(job)])
    monkeypatch.setattr("sys.stdin", io.StringIO('"go"\n'))
    with pytest.raises(SystemExit) as end:
        worker.main()
    assert not end.value.code
    (line,) = capsys.readouterr().out.splitlines()
    assert_measured(json.loads(line))


def test_a_worker_is_a_process_that_stays_until_it_is_closed():
    process = Worker(kind="loop", method="fedavg", images=60, clients=3)
    for _ in range(2):
        assert_measured(process.round())
    process.close()
    assert process.process.returncode == 0


def test_the_page(tmp_path):
    """One second a round for the plain loop, half of it for every other variant, a peak of 1 TFLOP/s."""
    facts = {"images": 4000, "memory": 2**30, "server": 0.0, "flops": 14_415_360, "together": 8.0, "repeat": 0}
    plain, ours = {"train": 0.8, "evaluate": 0.2}, {"train": 0.4, "evaluate": 0.1}
    rows = []
    for method in METHODS:
        for variant in CPU_VARIANTS:
            times = plain if variant["kind"] == "plain" else ours
            rows.append(facts | {"section": "throughput", "method": method} | variant | times)
        peaks = [{"kind": "peak", "threads": n, "peak": n * 1e12} for n in (1, 2)]
        rows += [{"section": "throughput", "method": method, "repeat": 0} | peak for peak in peaks]
        rows += [facts | ours | {"section": "scale", "method": method, "clients": n, "images": n} for n in (10, 20)]
    rows += [facts | {"section": "side by side", "how": how} | ours for how in ("alone", "beside", "beside")]
    rows.append(facts | {"section": "side by side", "how": "plain"} | plain)
    rows.append(facts | ours | {"section": "whole", "kind": "loop"})
    rows.append({"section": "whole", "kind": "peak", "repeat": 0, "peak": 1e12})
    rows += [facts | ours | {"section": "small", "kind": kind} | SMALL[0] for kind in ("loop", "stacked")]
    text = write(rows, "cpu", tmp_path / "results" / "here").read_text(encoding="utf-8")
    share = 3 * 0.75 * 4000 * 14_415_360 / 0.4 / 1e12
    assert (
        f"| fedavg | loop | 7500 (7500–7500) | 0.50 (0.50–0.50) | 2.00 (2.00–2.00) | 2.00 (2.00–2.00) | {share:.2f}"
        in text
    )
    assert "2.00 (2.00–2.00) × the images a second of one" in text and "4.00 (4.00–4.00) × those of the plain" in text
    assert "| mlp (hidden: 64, features: 64) |" in text and "N^0.00" in text
    assert (tmp_path / "results" / "here.csv").read_text().count("\n") == 1 + len(rows)


@pytest.mark.full
def test_many_clients_are_measured_and_killed(tmp_path):
    sizes = ["--clients", "12", "--participants", "3", "--repeats", "1", "--kills", "1"]
    assert population.main([*sizes, "--methods", "fedcosr", "--out", str(tmp_path)]) == 0
    (page,) = tmp_path.glob("*-population.md")
    text = page.read_text(encoding="utf-8")
    assert "| fedcosr |" in text
    assert "| fedcosr | 1 | 4 | yes |" in text
    (command,) = re.findall(r"\| fedcosr \| (\d+) \| ([\d,]+) MiB \|", text)
    assert int(command[1].replace(",", "")) > 50
    assert len(page.with_suffix(".csv").read_text(encoding="utf-8").splitlines()) == 4


def test_idle_clients_have_test_images_alone():
    job = worker.DEFAULTS | {"equal": True, "clients": 5, "learning": 2}
    train, test = worker.dealt(job, np.zeros(20, dtype=np.int64))
    assert [len(index) for index in train] == [3, 3, 0, 0, 0]
    assert [len(index) for index in test] == [1, 1, 4, 4, 4]


@pytest.mark.full
def test_forecasts_from_finished_cells_were_off_as_the_table_says(tmp_path):
    ratios = [*forecast_error.ratios_of_measured(forecast_error.unpacked(tmp_path))]
    actual = forecast_error.table({"measured": ratios}).loc["measured"]
    recorded = pd.read_csv(forecast_error.RESULTS, index_col="forecast").loc["measured"]
    assert actual["cells"] == recorded["cells"]
    for quantile in ("low", "median", "high"):  # cells that finished in the same second have no order
        assert actual[quantile] == pytest.approx(recorded[quantile], abs=0.03)


def test_ratios_in_a_table():
    row = forecast_error.table({"counted": [number / 10 for number in range(11)]}).loc["counted"]
    assert row.to_dict() == {"cells": 11, "low": 0.1, "median": 0.5, "high": 0.9}


def test_two_kept_runs_are_compared(tmp_path):
    places = {"folder": "table1", "data": "d", "heterogeneity": "h", "domain": "", "metric": "accuracy"}
    for run, ours, verdict in (("old", [70.0, 60.0, 50.0], "refuted"), ("new", [70.5, 60.0, 52.0], "inconclusive")):
        (tmp_path / run / "fedsac").mkdir(parents=True)
        rows = [places | {"row": f"r{i}", "seeds": 3 - 2 * (i == 2), "ours": value} for i, value in enumerate(ours)]
        pd.DataFrame(rows).to_csv(tmp_path / run / "fedsac/printed.csv", index=False)
        claims = {"folder": "table1", "says": ["A leads.", "B is last."], "verdict": [verdict, "confirmed"]}
        pd.DataFrame(claims).to_csv(tmp_path / run / "fedsac/claims.csv", index=False)
    apart = papers.moved(tmp_path / "old", tmp_path / "new").to_dict("index")
    assert apart["fedsac", 1] == {"size": 1, "median": 2.0, "max": 2.0, "equal": 0}
    assert apart["fedsac", 3] == {"size": 2, "median": 0.25, "max": 0.5, "equal": 1}
    (claim,) = papers.changed(tmp_path / "old", tmp_path / "new").to_dict("records")
    assert claim == {"verdict": "refuted", "verdict_after": "inconclusive", "says": "A leads."}


def test_cells_of_other_archives_stay_in_the_list(tmp_path):
    rows = [("1" * 16, "fedsac/table1 fedsac/table4"), ("2" * 16, "fedsac/table4"), ("3" * 16, "fedssc/table1")]
    cells = [dict.fromkeys(papers.CELLS, "") | {"key": key, "experiments": experiments} for key, experiments in rows]
    pd.DataFrame(cells).to_csv(tmp_path / "cells.csv", index=False)
    kept = papers.in_other_archives(tmp_path / "cells.csv", {"fedsac/table4", "fedssc/table1"})
    assert kept["key"].tolist() == ["1" * 16]
    assert papers.in_other_archives(tmp_path / "none.csv", {"fedsac/table1"}).empty


def test_cells_are_packed_with_results_of_other_code_where_todays_has_none(working_folder):
    study = trained_study(working_folder)
    today, other = study.cells
    earlier = make_earlier(other)
    papers.keep_cells([study], working_folder / "archives")
    listed = pd.read_csv(working_folder / "archives/cells.csv", dtype=str)
    assert listed["key"].tolist() == [today.key, other.key[::-1]]
    (archive,) = (working_folder / "archives").rglob("*.tar.xz")
    with tarfile.open(archive) as tar:
        assert sorted(tar.getnames()) == sorted([str(today.file), str(earlier)])
