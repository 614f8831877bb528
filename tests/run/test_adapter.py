"""What fedgrid needs of Snakemake beyond its documentation: each of these says what an upgrade took away."""

import inspect
from pathlib import Path
from types import SimpleNamespace

import pytest
from snakemake import api, spawn_jobs
from snakemake.scheduling.job_scheduler import JobScheduler
from snakemake.settings.types import Batch, ConfigSettings, DAGSettings

from fedgrid.run import adapter

Workflow = api.Workflow


def test_the_workflow_still_has_what_the_adapter_asks():
    used = (
        "register_resource",
        "global_resources",
        "nodes",
        "configfiles",
        "config_settings",
        "basedir",
        "dag_settings",
    )
    for name in used:
        assert name in inspect.getsource(Workflow), f"Snakemake's Workflow has no {name} any more"


def test_jobs_on_nodes_get_the_configfiles_of_the_settings():
    source = inspect.getsource(spawn_jobs.SpawnedJobArgsFactory.get_configfiles_arg)
    assert "overwrite_configfiles" in source, "Snakemake hands configfiles to nodes in another way"
    overwritten = inspect.getsource(Workflow.overwrite_configfiles.fget)
    assert "config_settings.configfiles" in overwritten, "what nodes are told is no longer config_settings.configfiles"


def test_configfiles_are_forgotten(tmp_path):
    (tmp_path / "study.yaml").write_text("name: s")
    workflow = SimpleNamespace(config_settings=ConfigSettings(configfiles=[tmp_path / "study.yaml"]))
    adapter.forget_configfiles(workflow)
    assert not workflow.config_settings.configfiles


def test_configfiles_are_named_as_the_user_did():
    assert adapter.configfiles(SimpleNamespace(configfiles=["a.yaml", "b.yaml"])) == [Path("a.yaml"), Path("b.yaml")]


@pytest.mark.parametrize("nodes", [None, 3])
def test_a_cluster_counts_jobs(nodes):
    assert adapter.submits(SimpleNamespace(nodes=nodes)) == (nodes is not None)


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
def test_a_run_of_a_part_is_known_by_its_command_line(options, everything):
    workflow = SimpleNamespace(dag_settings=DAGSettings(**options))
    assert adapter.makes_everything(workflow) == everything


@pytest.mark.parametrize(("given", "slots", "offered"), [({}, 2, {"gpu": 2}), ({"gpu": 1}, 2, {}), ({}, 0, {})])
def test_gpus_are_offered_unless_the_user_did(given, slots, offered):
    found = {}
    workflow = SimpleNamespace(global_resources=given, register_resource=found.__setitem__)
    adapter.offer_gpus(workflow, slots)
    assert found == offered


def test_without_a_limit_no_look_at_the_ready_jobs_has_another_one_follow():
    limited = "if self.job_rate_limiter is not None:\n" + " " * 24 + "# need to reevaluate"
    assert limited in inspect.getsource(JobScheduler.schedule), "Snakemake looks at ready jobs again for another reason"
    assert "if self.job_rate_limiter is None:" in inspect.getsource(JobScheduler.job_selector)
    assert "self.scheduler = JobScheduler(" in inspect.getsource(Workflow), "the scheduler lies elsewhere"
    workflow = SimpleNamespace(scheduler=SimpleNamespace(job_rate_limiter=3))
    adapter.start_without_a_limit(workflow)
    assert workflow.scheduler.job_rate_limiter is None
