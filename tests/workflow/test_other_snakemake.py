"""A study on a Snakemake that lacks what the adapter uses beyond the documentation: slower, never wrong."""

import os
import re

import pytest
from checkout import ROOT
from forked import Forked

STUDY = """
name: tiny
data: digits
heterogeneity: [{partition: homogeneous, clients: 2}]
model: {name: mlp, hidden: 4, features: 4}
training: {rounds: 1}
methods: [local, fedavg]
"""
GPUS, LIMIT = "register_resource", "scheduler.job_rate_limiter"
pytestmark = pytest.mark.usefixtures("forker")
LOSSES = {
    "nodes": "say whether it submits jobs; ",
    "configfiles": "name the study's files; ",
    "dag_settings.targets": "say which targets it was given; ",
    GPUS: "let fedgrid limit jobs to this machine's GPUs; --resources gpu=2 ",
    LIMIT: "let fedgrid lift its limit on job starts; ",
    "config_settings.configfiles": "keep the study's files off the command lines of submitted jobs; ",
}
"What the user is told where Snakemake does not have an attribute."


class Hiding(Forked):
    """A copy of the repository on a machine with two GPUs, whose Snakemake hides attributes from the Snakefile."""

    def __init__(self, path, hidden):
        super().__init__(path, STUDY)
        self.hidden = hidden

    @property
    def environment(self):
        given = super().environment
        code = os.pathsep.join([given["PYTHONPATH"], str(ROOT / "tests/workflow")])
        return given | {"PYTHONPATH": code, "CUDA_VISIBLE_DEVICES": "GPU-one,GPU-two"}

    def command(self, *arguments):
        options = super().command(*arguments)
        options[options.index("snakemake.cli")] = "hiding"
        return [*options[:5], ",".join(self.hidden), *options[5:]]

    def assert_warned(self, output, *missing):
        lines = re.findall(r"fedgrid: this Snakemake \(.*", output)  # Snakemake may end its own line only afterwards
        assert len(lines) == len(missing), output
        assert all(any(f") does not {LOSSES[name]}" in line for line in lines) for name in missing), output


@pytest.mark.full
def test_a_workstation_run_works_without_what_snakemake_lacks(tmp_path):
    missing = LOSSES.keys() - {"nodes", "config_settings.configfiles"}
    checkout = Hiding(tmp_path, missing)
    checkout.assert_warned(checkout.snakemake(), *missing)
    assert len(checkout.cells()) == 2
    assert "--configfile STUDY.yaml" in (tmp_path / "results/tiny/report.html").read_text()


@pytest.mark.full
def test_jobs_that_may_be_submitted_go_without_what_snakemake_lacks(tmp_path):
    missing = LOSSES.keys() - {GPUS, LIMIT}  # which are of use on a workstation alone
    checkout = Hiding(tmp_path, missing)
    other = STUDY.replace("tiny", "other").replace("fedavg", "fedprox")
    (tmp_path / "other.yaml").write_text(f"{other}compute: {{pack: 2}}")
    checkout.assert_warned(checkout.snakemake("--configfile", "other.yaml"), *missing)
    assert [cell.parts[-4] for cell in checkout.cells()] == ["fedprox", "local"]
    assert (tmp_path / "results/other/report.html").is_file()
