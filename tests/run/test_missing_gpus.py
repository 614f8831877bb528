"""A GPU that a study asks for and that is not there: said once, before anything is written or computed."""

import json
from pathlib import Path

import pytest
import yaml
from commands import complaint
from studies import FOUR_CELLS, study_of

from fedgrid.cli.main import main
from fedgrid.grid.costs.forecast import Speed
from fedgrid.grid.study.yaml_file import read
from fedgrid.jobs import gpus
from fedgrid.loading import CODE
from fedgrid.run import notices
from fedgrid.run.invocation import PLAN, invocation

CUDA = {"compute": {"device": "cuda"}}
LACKING = "compute.device: 'cuda' needs a GPU, and none can be seen here"


@pytest.fixture(autouse=True)
def folder(working_folder, monkeypatch):
    """A folder with a study that asks for a GPU, on a machine that has none."""
    for name in (PLAN, CODE):  # which a run sets
        monkeypatch.setenv(name, "")
        monkeypatch.delenv(name)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    monkeypatch.setattr(gpus, "seen_by_torch", lambda: 0)
    Path("study.yaml").write_text(yaml.safe_dump(yaml.safe_load(FOUR_CELLS) | CUDA))
    return working_folder


def run_of(request):
    file = Path("study.yaml")
    return invocation(read(file), [file], submits=False)


def finish(study):
    for cell in study.cells:
        cell.file.parent.mkdir(parents=True, exist_ok=True)
        cell.file.touch()


def test_a_run_on_this_machine_does_not_begin(folder, request, capsys):
    with pytest.raises(SystemExit) as end:
        run_of(request).begin()
    output = capsys.readouterr().err
    assert end.value.code == 2 and output.startswith(f"fedgrid: {LACKING}; set it to auto or cpu")
    assert output.count("\n") == 1 and not (folder / "results").exists()


def test_a_study_whose_cells_are_all_cached_needs_no_card(request, capsys):
    finish(study_of(**CUDA))
    run = run_of(request)
    run.begin()
    run.lock.release()
    assert main(["plan", "--configfile", "study.yaml"]) == 0
    assert "GPU" not in capsys.readouterr().err


def test_where_jobs_are_submitted_it_is_one_line():
    study = study_of(**CUDA)
    assert list(notices.run_notices(study, submits=True)) == [f"{LACKING}; each job asks the cluster for one"]
    assert list(notices.run_notices(study, submits=False)) == []
    finish(study)
    assert list(notices.run_notices(study, submits=True)) == []


def test_a_plan_says_it_once(capsys, monkeypatch):
    Path("other.yaml").write_text(Path("study.yaml").read_text().replace("name: s", "name: other"))
    monkeypatch.setattr("fedgrid.jobs.measurements.speeds", lambda trials: [Speed(1, 1) for _ in trials])
    assert main(["plan", "--json", "--configfile", "study.yaml", "other.yaml"]) == 0
    answer = capsys.readouterr()
    assert answer.err == f"fedgrid: {LACKING}; these cells have to be computed elsewhere\n"
    assert json.loads(answer.out)["all"]["cells"] == 4


def test_a_cell_started_by_hand_does_not_begin(folder, capsys):
    assert complaint(capsys, "run", "fedavg", "--device", "cuda", "--clients", "4").startswith(f"fedgrid: {LACKING}")
    assert not (folder / "results").exists()


@pytest.mark.parametrize("mps", [True, False])
def test_cells_that_take_turns_on_a_gpu_are_told_of_mps(monkeypatch, mps):
    study = study_of()
    monkeypatch.setattr(gpus, "could_be_side_by_side", lambda: mps)
    assert list(notices.run_notices(study, submits=False, shares_gpus=True)) == [notices.TURNS] * mps
    assert list(notices.run_notices(study, submits=False)) == []
    finish(study)
    assert list(notices.run_notices(study, submits=False, shares_gpus=True)) == []


@pytest.mark.parametrize(
    ("device", "share", "submits", "expected"),
    [
        ("cuda", 8, False, True),
        ("auto", 8, False, True),
        ("cuda", 1, False, False),
        ("cuda", 8, True, False),
        ("cpu", 8, False, False),
        ("cuda:0", 8, False, False),  # the user's own choice, which nobody shares
    ],
)
def test_a_run_that_shares_gpus(monkeypatch, device, share, submits, expected):
    monkeypatch.setattr(gpus, "cards", lambda: ["0"])
    file = Path("study.yaml")
    file.write_text(yaml.safe_dump(yaml.safe_load(FOUR_CELLS) | {"compute": {"device": device, "gpu_share": share}}))
    assert invocation(read(file), [file], submits=submits).shares_gpus == expected
