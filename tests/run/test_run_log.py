"""What a run tells while it is going: Snakemake's events in the words of the study."""

import io
import json
import logging
import threading
from pathlib import Path
from types import SimpleNamespace

import pytest
from snakemake_interface_logger_plugins.base import LogHandlerBase
from snakemake_interface_logger_plugins.common import LogEvent
from studies import prepared, study_of, trained

from fedgrid.jobs.status import own_frames
from fedgrid.run import run_log
from fedgrid.run.snakemake_adapter import TOLD
from snakemake_logger_plugin_fedgrid import LogHandler

SETTINGS = {"verbose": False, "dryrun": False, "printshellcmds": False, "debug_dag": False, "quiet": {"rules"}}


@pytest.fixture
def study(tmp_path, monkeypatch):
    """Of four cells that have their partitions, and no results."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(run_log, "heard", False)
    monkeypatch.setattr(run_log, "current", None)
    return prepared(study_of())


@pytest.fixture
def told(study, capsys):
    """A run of the study, by events; gives the lines that it has told since the last call."""
    handler = LogHandler(SimpleNamespace(**SETTINGS, nocolor=True, stdout=False, show_failed_logs=False), None)
    handler.setFormatter(logging.Formatter("%(message)s"))
    stream = io.StringIO()
    run_log.current = run_log.RunLog(study, study.cells, {"ab" * 8: [cell.key for cell in study.cells[2:]]}, stream)

    def tell(message="", level=logging.INFO, **event):
        record = logging.LogRecord("snakemake.logging", level, "", 0, message, (), None)
        vars(record).update(event)
        handler.emit(record)
        text = stream.getvalue() + capsys.readouterr().err
        stream.seek(0)
        stream.truncate()
        return text.splitlines()

    return tell


def job(number, cell):
    """The event of a cell's job that begins."""
    return {"event": LogEvent.JOB_INFO, "jobid": number, "rule_name": "train", "wildcards": {"key": cell.key}}


def test_a_cell_that_ends_is_a_line_with_its_score_and_the_time_left(study, told):
    cell = study.cells[0]
    assert told() == ["s: 4 cells to run, 0 cached"]
    assert told(**job(1, cell)) == []
    trained(cell, study)
    (line,) = told(event=LogEvent.JOB_FINISHED, job_id=1)
    assert line.startswith("✓ 1/4  Local, digits, Dirichlet β=0.5, 4 clients, seed 0: ")
    assert " % in " in line and not line.endswith(" left")  # one cell says little of the others
    for number in (1, 2):
        told(**job(number + 1, study.cells[number]))
        trained(study.cells[number], study)
        (line,) = told(event=LogEvent.JOB_FINISHED, job_id=number + 1)
    assert line.startswith("✓ 3/4") and line.endswith(" left")


SEARCHED = {
    "heterogeneity": [{"partition": "dirichlet", "beta": 0.5, "clients": 4, "validation": 0.2}],
    **{"methods": ["local"], "seeds": [0], "search": {"lr": [0.01, 0.1, 0.2, 0.3], "seeds": [1000], "rungs": [1, 2]}},
}


def test_chosen_cells_take_the_place_of_those_that_waited_and_later_rungs_are_counted_as_they_come(study, capsys):
    searched = study_of(**SEARCHED)
    (experiment,) = searched.experiments
    run = run_log.RunLog(searched, [*searched.by_key.values()])
    later = [c for c in experiment.options if c.key not in searched.by_key]
    ends = [*experiment.trials, *(c for c in later if c.seed == 1000), next(c for c in later if c.seed == 0)]
    capsys.readouterr()
    for number, cell in enumerate(ends):
        run.start(number, "train", {"key": cell.key})
        run.fail(number)
    totals = [line.split()[1] for line in capsys.readouterr().err.splitlines() if line.startswith("✗")]
    rungs = len(ends) - 5  # four points on the first rung, and the cell of the table
    assert totals == [
        *(f"{number}/5" for number in range(1, 5)),
        *(f"{5 + number}/{6 + number}" for number in range(rungs)),
        f"{5 + rungs}/{5 + rungs}",
    ]


def test_a_run_of_some_cells_counts_no_others(study, capsys):
    finished = study.cells[0].file
    finished.parent.mkdir(parents=True)
    finished.touch()
    run_log.RunLog(study, study.cells[:2])
    assert capsys.readouterr().err == f"{study.folder.name}: 1 cell to run, 1 cached\n"


def test_a_cell_that_two_rows_may_take_stands_for_the_one_that_waited(capsys):
    rows = [{"fast": {"method": "local"}}, {"slow": {"method": "local", "search": {"lr": [0.01, 0.1]}}}]
    searched = study_of(**SEARCHED | {"methods": rows})
    run = run_log.RunLog(searched, [*searched.by_key.values()])
    total = len(run.work)
    ended = next(c for e in searched.experiments for c in e.options if c.row.label == "slow" and c.seed == 0)
    assert searched.known[ended.key].row.label == "fast"
    run.start(1, "train", {"key": ended.key})
    run.fail(1)
    assert f"✗ 1/{total} " in capsys.readouterr().err


def test_a_cell_that_fails_says_why_and_snakemake_does_not(study, told):
    cell = study.cells[1]
    told(**job(1, cell))
    cell.status.parent.mkdir(parents=True)
    cell.status.write_text(json.dumps({"state": "failed", "reason": "KeyError: 'x'"}))
    assert told("RuleException:\nCalledProcessError in file", logging.ERROR, event=LogEvent.ERROR) == []
    (line,) = told("Error in rule train", logging.ERROR, event=LogEvent.JOB_ERROR, jobid=1)
    assert line.startswith("✗ 1/4  Local, digits, Dirichlet β=0.5, 4 clients, seed 1: KeyError: 'x'")


def test_a_process_that_could_not_say_why_is_known_by_its_log(study, told):
    cell = study.cells[1]
    told(**job(1, cell))
    cell.log.parent.mkdir(parents=True)
    cell.log.write_text("\n".join(map(str, range(30))))
    lines = told("Error in rule train", logging.ERROR, event=LogEvent.JOB_ERROR, jobid=1)
    assert lines[0].endswith(f"its process ended early; the end of {cell.log}:")
    assert lines[1:-1] == [str(number) for number in range(20, 29)]


def test_a_cell_whose_accuracy_stands_still_says_so(study, capsys):
    """With a learning rate so small that no weight changes."""
    still = study_of(training={"batch_size": 512, "rounds": 12, "lr": 1e-30})
    run, cell = run_log.RunLog(still, still.cells), still.cells[0]
    assert " % (received)  unchanged since round 1  " in trained(cell, still).stdout
    run.start(1, "train", {"key": cell.key})
    run.finish(1)
    assert " %, unchanged since round 1 in " in capsys.readouterr().err


def test_the_cells_of_a_pack_are_told_one_by_one(study, told):
    told(event=LogEvent.JOB_INFO, jobid=3, rule_name="pack", wildcards={"key": "ab" * 8})
    trained(study.cells[2], study)
    lines = told("Error", logging.ERROR, event=LogEvent.JOB_ERROR, jobid=3)
    names = (
        "1/4  FedAvg, digits, Dirichlet β=0.5, 4 clients, seed 0",
        "2/4  FedAvg, digits, Dirichlet β=0.5, 4 clients, seed 1",
    )
    assert [line.partition(":")[0] for line in lines if line[0] in "✓✗"] == [f"✓ {names[0]}", f"✗ {names[1]}"]


def test_other_jobs_that_fail_are_named_by_their_rule(told):
    told(event=LogEvent.JOB_INFO, jobid=3, rule_name="partition", wildcards={"key": "ab", "seed": 0})
    assert told("Error", logging.ERROR, event=LogEvent.JOB_ERROR, jobid=3) == [
        "✗ partition (ab, 0) failed; what it said stands above"
    ]


def test_warnings_and_unknown_errors_are_printed_and_the_rest_is_for_snakemakes_log(told):
    assert told("Select jobs to execute...")[1:] == []
    assert told("3 of 9 steps (33%) done", event=LogEvent.PROGRESS) == []
    assert told("the disk is slow", logging.WARNING) == ["the disk is slow"]
    assert told("MissingOutputException", logging.ERROR, event=LogEvent.ERROR) == ["MissingOutputException"]


@pytest.mark.parametrize(("page", "said"), [(None, " (all is there)."), (Path("p.html"), ". Look at p.html")])
def test_a_run_with_nothing_to_do_names_the_page_if_it_asks_for_everything(told, monkeypatch, page, said):
    monkeypatch.setattr(run_log, "current", None)
    monkeypatch.setattr(run_log, "page", lambda: page)
    assert told("Nothing to be done (all is there).")[-1] == f"Nothing to be done{said}"


def test_who_waits_for_earlier_messages_is_told(told):
    event = threading.Event()
    told("", **{TOLD: event})
    assert event.is_set()


@pytest.mark.parametrize("asked", [{"verbose": True}, {"dryrun": True}, {"quiet": {"all"}}, {"printshellcmds": True}])
def test_snakemakes_own_words_on_request(study, asked, capsys):
    handler = LogHandler(SimpleNamespace(**SETTINGS | asked, nocolor=True, stdout=False), None)
    handler.setFormatter(logging.Formatter("%(message)s"))
    run_log.begin(study, study.cells, {})
    assert run_log.current is None and not handler.has_filter
    handler.emit(logging.LogRecord("snakemake.logging", logging.INFO, "", 0, "Select jobs to execute...", (), None))
    assert capsys.readouterr().err == "Select jobs to execute...\n"


def test_a_terminal_has_a_bar_below_the_lines(study):
    terminal = io.StringIO()
    terminal.isatty = lambda: True
    log = run_log.RunLog(study, study.cells, stream=terminal)
    log.close()
    assert "0/4 cells" in terminal.getvalue()


def test_an_interface_that_leaves_the_handler_bare_is_enough(monkeypatch):
    """That of Snakemake 9.0."""

    def bare(self, common_settings, settings):
        self.common_settings = common_settings
        self.__post_init__()

    monkeypatch.setattr(LogHandlerBase, "__init__", bare)
    handler = LogHandler(SimpleNamespace(**SETTINGS, nocolor=True, stdout=False, show_failed_logs=False), None)
    handler.addFilter(lambda record: True)
    assert handler.handle(logging.LogRecord("snakemake.logging", logging.INFO, "", 0, "Building DAG", (), None))


def test_frames_are_those_of_the_users_own_file_by_its_own_path(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("mine.py").write_text("import json\n\ndef load():\n    json.loads('{')\n")
    scope = {}
    exec(compile(Path("mine.py").read_text(), str(tmp_path / "mine.py"), "exec"), scope)
    with pytest.raises(ValueError) as caught:
        scope["load"]()
    assert own_frames(caught.value, ["mine.py", "cnn"]) == ["mine.py:4, in load: json.loads('{')"]
    assert own_frames(caught.value, ["cnn"]) == []
