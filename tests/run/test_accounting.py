"""Who can tell a run how its jobs end: what SLURM's own programs say about it, and what their absence means."""

import pytest

from fedgrid.run import slurm


@pytest.fixture
def programs(tmp_path, monkeypatch):
    """Makes programs of SLURM that run a line of shell; there are no others."""
    monkeypatch.setenv("PATH", str(tmp_path))

    def make(**lines):
        for name, line in lines.items():
            (tmp_path / name).write_text(f"#!/bin/sh\n{line}\n")
            (tmp_path / name).chmod(0o755)

    return make


@pytest.mark.parametrize(
    ("line", "failure"),
    [
        ("exit 0", ""),
        ("echo Slurm accounting storage is disabled >&2; exit 1", "Slurm accounting storage is disabled"),
        ("echo sacct: error: one >&2; echo sacct: error: two >&2; exit 1", "sacct: error: two"),
        ("exit 3", "exit code 3"),
    ],
)
def test_sacct_says_itself_why_it_knows_nothing(programs, line, failure):
    programs(sacct=line)
    assert slurm.accounting_failure() == failure


def test_a_sacct_that_does_not_answer_knows_nothing(programs, monkeypatch):
    programs(sacct="while true; do :; done")
    monkeypatch.setattr(slurm, "PATIENCE", 0.1)
    assert slurm.accounting_failure() == "no answer in 0 s"


def test_without_slurm_nothing_is_amiss(programs):
    assert slurm.accounting_failure() == "" and slurm.forgets_early() == ""


@pytest.mark.parametrize(
    ("line", "sentence"),
    [
        ("echo 'MinJobAge               = 300 sec'", ""),
        ("echo 'MinJobAge               = 180 sec'", ""),
        ("echo 'MinJobAge               = 30 sec'", "squeue lists a finished job for 30 s only"),
        ("echo 'MaxJobCount             = 30'", ""),
        ("exit 1", ""),
    ],
)
def test_squeue_must_list_a_finished_job_until_the_executor_looks(programs, line, sentence):
    programs(scontrol=f'[ "$*" = "show config" ] && {line}')
    forgets = slurm.forgets_early()
    assert forgets.startswith(sentence) and bool(forgets) == bool(sentence)
