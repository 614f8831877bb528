"""What fedgrid uses of Snakemake beyond its documentation: there in the installed one, and dispensable in any other."""

import inspect
import re
from importlib.metadata import version
from pathlib import Path
from types import SimpleNamespace

import pytest
from checkout import ROOT
from snakemake import api, spawn_jobs
from snakemake.settings.types import Batch, ConfigSettings, DAGSettings

from fedgrid.run import slurm
from fedgrid.run import snakemake_adapter as adapter

Workflow = api.Workflow
DISABLED = "Slurm accounting storage is disabled"
STUDY = {"data": "digits", "methods": ["local"]}


@pytest.fixture(autouse=True)
def _says_everything_again():
    adapter._warn.cache_clear()


@pytest.fixture
def warning(capsys):
    """Returns what was said since the last look, which is one warning; empty where it is none."""

    def output():
        lines = capsys.readouterr().err.splitlines()
        start = f"fedgrid: this Snakemake ({version('snakemake')}) does not "
        assert len(lines) <= 1 and all(line.startswith(start) for line in lines), lines
        return "".join(lines).removeprefix(start)

    return output


# -- the installed Snakemake


def test_only_the_adapter_looks_into_the_workflow():
    files = [ROOT / "workflow/Snakefile", *(ROOT / "workflow").rglob("*.smk")]
    assert len(files) > 4
    for file in files:
        attributes = re.findall(r"(?<!/)\bworkflow\.(\w+)", file.read_text())
        assert {*attributes} <= {"basedir"}, file  # documented, and needed before anything is imported
    assert isinstance(Workflow.basedir, property)


def test_the_installed_workflow_has_all_that_the_adapter_uses():
    used = re.findall(r'(?:_attribute|_replace)\(workflow, f?"(\w+)', inspect.getsource(adapter))
    assert len(used) >= 7
    for name in used:
        assert name in inspect.getsource(Workflow), f"Snakemake's Workflow has no {name} any more"


def test_jobs_on_nodes_get_the_configfiles_of_the_settings():
    source = inspect.getsource(spawn_jobs.SpawnedJobArgsFactory)
    assert "overwrite_configfiles" in source, "Snakemake hands configfiles to nodes in another way"
    overwritten = inspect.getsource(Workflow.overwrite_configfiles.fget)
    assert "config_settings.configfiles" in overwritten, "what nodes are told is no longer config_settings.configfiles"


def test_without_a_rate_limiter_no_look_at_the_ready_jobs_has_another_one_follow():
    scheduler = inspect.getmodule(inspect.unwrap(Workflow.execute)).JobScheduler
    limited = "if self.job_rate_limiter is not None:\n" + " " * 24 + "# need to reevaluate"
    assert limited in inspect.getsource(scheduler.schedule), "Snakemake looks at ready jobs again for another reason"
    assert "if self.job_rate_limiter is None:" in inspect.getsource(scheduler.job_selector)
    assert "self.scheduler = JobScheduler(" in inspect.getsource(Workflow), "the scheduler lies elsewhere"


def test_the_executor_reads_its_status_command_at_every_look():
    plugin = pytest.importorskip(adapter.SLURM)
    executor = plugin.Executor
    assert plugin.ExecutorSettings.__module__ == adapter.SLURM
    assert "self.get_status_command()" in inspect.getsource(executor.check_active_jobs)
    assert "return self.workflow.executor_settings.status_command" in inspect.getsource(executor.get_status_command)
    source = inspect.getsource(executor.check_active_jobs)
    assert f"max_sleep_time = {slurm.LONGEST_WAIT}\n" in source, "it looks at its jobs more or less often"


# -- what each use does, and what it does without


@pytest.mark.parametrize("nodes", [None, 3])
def test_a_cluster_counts_jobs(nodes, warning):
    assert adapter.submits(SimpleNamespace(nodes=nodes)) == (nodes is not None)
    assert not warning()


@pytest.mark.parametrize("workflow", [SimpleNamespace(), SimpleNamespace(nodes="many")])
def test_jobs_that_may_be_submitted_count_as_submitted(workflow, warning):
    assert adapter.submits(workflow)
    assert warning().startswith("say whether it submits jobs; on a workstation, ")


def test_configfiles_are_named_as_the_user_did(warning):
    workflow = SimpleNamespace(configfiles=["a.yaml", "b.yaml"])
    assert adapter.configfiles(workflow) == [Path("a.yaml"), Path("b.yaml")]
    assert adapter.is_study_given(workflow, {})
    assert not adapter.is_study_given(SimpleNamespace(configfiles=[]), STUDY)
    assert not warning()


@pytest.mark.parametrize("workflow", [SimpleNamespace(), SimpleNamespace(configfiles="a.yaml")])
def test_a_study_without_a_name_is_known_by_its_keys(workflow, warning):
    assert adapter.configfiles(workflow) == []
    assert adapter.is_study_given(workflow, STUDY) and adapter.is_study_given(workflow, {"name": "no more"})
    assert not adapter.is_study_given(workflow, {"scale": "small", "only": "table2"})
    assert warning().startswith("name the study's files; duplicate keys in them go unnoticed")


@pytest.mark.parametrize(
    ("options", "everything"),
    [
        ({}, True),
        ({"targets": {"all"}}, True),
        ({"targets": {"all", "results/s/tables"}}, False),
        ({"until": {"train"}}, False),
        ({"omit_from": {"paper"}}, False),
        ({"batch": Batch("all", 1, 2)}, False),
    ],
)
def test_a_run_of_a_part_is_known_by_its_command_line(options, everything, warning):
    workflow = SimpleNamespace(dag_settings=DAGSettings(**options))
    assert adapter.makes_everything(workflow) == everything
    assert adapter.targets(workflow) == options.get("targets", set())
    assert not warning()


@pytest.mark.parametrize("missing", ["targets", "until", "omit_from", "batch"])
def test_a_run_of_an_unknown_part_promises_less(missing, warning):
    settings = {"targets": set(), "until": set(), "omit_from": set(), "batch": None}
    del settings[missing]
    assert not adapter.makes_everything(SimpleNamespace(dag_settings=SimpleNamespace(**settings)))
    assert warning().startswith("say which targets it was given; ")


@pytest.mark.parametrize(("given", "slots", "offered"), [({}, 2, {"gpu": 2}), ({"gpu": 1}, 2, {}), ({}, 0, {})])
def test_gpus_are_offered_unless_the_user_did(given, slots, offered, warning):
    actual = {}
    workflow = SimpleNamespace(global_resources=given, register_resource=actual.__setitem__)
    adapter.offer_gpus(workflow, slots)
    assert actual == offered and not warning()


@pytest.mark.parametrize(
    "workflow",
    [
        SimpleNamespace(global_resources={}),
        SimpleNamespace(global_resources=[], register_resource=pytest.fail),
        SimpleNamespace(global_resources={}, register_resource=lambda name: None),
    ],
)
def test_gpus_that_cannot_be_offered_are_worth_a_line_where_there_are_any(workflow, warning):
    adapter.offer_gpus(workflow, 0)
    assert not warning()
    adapter.offer_gpus(workflow, 2)
    assert warning().startswith("let fedgrid limit jobs to this machine's GPUs; --resources gpu=2 ")


def test_the_limit_on_job_starts_is_lifted_where_there_is_one(warning):
    workflow = SimpleNamespace(scheduler=SimpleNamespace(job_rate_limiter=3))
    adapter.lift_rate_limit(workflow)
    assert workflow.scheduler.job_rate_limiter is None and not warning()
    for other in (SimpleNamespace(), SimpleNamespace(scheduler=None), SimpleNamespace(scheduler=SimpleNamespace())):
        before = repr(other)
        adapter.lift_rate_limit(other)
        assert repr(other) == before
    assert warning().startswith("let fedgrid lift its limit on job starts; ")


def test_configfiles_are_hidden_from_nodes(tmp_path, warning):
    (tmp_path / "study.yaml").write_text("name: s")
    workflow = SimpleNamespace(config_settings=ConfigSettings(configfiles=[tmp_path / "study.yaml"]))
    adapter.hide_configfiles(workflow)
    assert not workflow.config_settings.configfiles and not warning()


class Unchangeable:
    configfiles = property(lambda self: [])


@pytest.mark.parametrize("settings", [None, SimpleNamespace(configfiles={}), Unchangeable()])
def test_configfiles_that_cannot_be_hidden_are_worth_a_line(settings, warning):
    adapter.hide_configfiles(SimpleNamespace(config_settings=settings))
    assert warning().startswith("keep the study's files off the command lines of submitted jobs; ")


@pytest.fixture
def accounting(monkeypatch):
    """Makes a SLURM of which sacct and squeue say as much as the test wants."""

    def make(failure, forgets=""):
        monkeypatch.setattr(slurm, "accounting_failure", lambda: failure)
        monkeypatch.setattr(slurm, "forgets_early", lambda: forgets)

    return make


class Settings(SimpleNamespace):
    __module__ = adapter.SLURM


class Settled:
    __module__ = adapter.SLURM
    status_command = property(lambda self: "sacct")


def executor(command):
    return SimpleNamespace(executor_settings=Settings(status_command=command))


def test_squeue_is_asked_where_there_is_no_accounting(accounting, capsys):
    accounting(DISABLED)
    workflow = executor("sacct")
    adapter.follow_jobs_without_accounting(workflow)
    assert workflow.executor_settings.status_command == "squeue"
    assert capsys.readouterr().err == (
        f"fedgrid: SLURM has no accounting here ({DISABLED}), so squeue is asked how jobs end\n"
    )


@pytest.mark.parametrize(("failure", "command"), [("", "sacct"), ("", "squeue"), (DISABLED, "squeue")])
def test_the_status_command_stays_where_it_is_right_or_chosen(accounting, warning, failure, command):
    accounting(failure, "squeue forgets early")
    workflow = executor(command)
    adapter.follow_jobs_without_accounting(workflow)
    assert workflow.executor_settings.status_command == command and not warning()


def test_a_run_that_could_not_see_its_jobs_end_is_refused(accounting, capsys):
    accounting(DISABLED, "squeue forgets early")
    workflow = executor("sacct")
    with pytest.raises(SystemExit, match="2"):
        adapter.follow_jobs_without_accounting(workflow)
    assert capsys.readouterr().err == f"fedgrid: SLURM has no accounting here ({DISABLED}), and squeue forgets early\n"


@pytest.mark.parametrize("settings", [Settings(), Settings(status_command=None), Settled()])
def test_a_status_command_that_cannot_be_chosen_is_worth_a_line(accounting, settings, warning):
    accounting("")
    adapter.follow_jobs_without_accounting(SimpleNamespace(executor_settings=settings))
    assert not warning()
    accounting(DISABLED)
    adapter.follow_jobs_without_accounting(SimpleNamespace(executor_settings=settings))
    assert warning().startswith("let fedgrid choose squeue; set slurm-status-command: squeue in the profile, ")


def test_other_executors_are_left_alone(accounting, warning):
    accounting(DISABLED)
    for settings in (None, SimpleNamespace(status_command="sacct")):
        workflow = SimpleNamespace(executor_settings=settings)
        adapter.follow_jobs_without_accounting(workflow)
        assert not warning() and getattr(settings, "status_command", "sacct") == "sacct"
    adapter.follow_jobs_without_accounting(SimpleNamespace())
    assert warning().startswith("let fedgrid choose squeue; ")
