"""Kept states: a run that continues from the state of a shorter one ends as if it had started from scratch."""

from dataclasses import replace

import pytest
import torch
from changed_states import copy_state, rewritten
from trajectories import ending_after

from fedgrid.engine import rounds
from fedgrid.engine.rounds import federate
from fedgrid.engine.state import population
from fedgrid.engine.state.checkpoint import rows_of
from fedgrid.engine.state.kept_state import same_states
from fedgrid.engine.state.saving import Origin, Saving, Terminated
from fedgrid.loading import names
from fedgrid.settings import Adversarial
from fedgrid.suite import simulations

READS = {"apple", "ccvr", "cfl", "fedphp", "fedproc", "fedsac", "pfedsim"}
"Methods that read the number of rounds with their default settings."
SETTINGS = {
    "momentum": {"momentum": 0.9},
    "exponential": {"lr_schedule": "exponential", "lr_decay": 0.9},
    "attacks": {"evaluate": ("clean", "fgsm"), "adversarial": Adversarial(steps=1), "eval_every": 2},
    "sample": {"eval_every": 3, "eval_sample": 2, "clip": 1.0},
}


OTHERS = ("exponential", "attacks", "sample", "adam")


def simulation(planned, **training):
    return simulations.ragged(rounds=planned, participation=0.5, **training)


def run(name, planned, folder, key, origin=None, tell=None, keep=True, **training):
    saving = Saving(folder / key, key, 1e9, origin, folder / f"{key}.state.pt" if keep else None)
    return federate(simulations.method(name), simulation(planned, **training), saving, tell)


def rows(outcome, until=10**9):
    return [row for row in outcome.progress.record.rows if row[0] <= until]


def bits(outcome, until=10**9):
    """What is recorded, with not-a-number equal to itself."""
    return repr(rows(outcome, until))


def check_continued(name, folder, short=4, long=7, **training):
    shorter = run(name, short, folder, "short", **training)
    whole = run(name, long, folder, "whole", keep=False, **training)
    assert shorter.state.rounds == short - 1
    origin = Origin(folder / "short.state.pt", "short")
    continued = run(name, long, folder, "long", origin, **training)
    assert bits(continued) == bits(whole)
    assert continued.progress.continued == (0 if shorter.state.reads else short - 1)
    return shorter, whole


@pytest.mark.representatives
@pytest.mark.parametrize("name", names("methods"))
def test_every_method_continues_to_the_same_bits_or_not_at_all(name, tmp_path):
    shorter, whole = check_continued(name, tmp_path)
    assert bool(shorter.state.reads) == (name in READS)
    if not shorter.state.reads:
        assert bits(shorter, 3) == bits(whole, 3)


@pytest.mark.representatives
@pytest.mark.parametrize("settings", ["momentum", *(pytest.param(kind, marks=pytest.mark.full) for kind in OTHERS)])
@pytest.mark.parametrize("name", names("methods"))
def test_with_other_settings(name, settings, tmp_path):
    if settings == "adam" and name in ("scaffold", "pfedme", "perfedavg"):
        pytest.skip("its own steps refuse a rate that is meant for Adam")
    training = SETTINGS.get(settings, {"optimizer": "adam", "lr": 0.003})
    check_continued(name, tmp_path, **training)


@pytest.mark.full
@pytest.mark.parametrize("name", names("methods"))
def test_methods_whose_first_rounds_differ_say_that_they_read_the_number_of_rounds(name, tmp_path):
    short, long = (run(name, planned, tmp_path, str(planned)) for planned in (6, 12))
    if bits(short, 5) != bits(long, 5):
        assert name in READS and short.state.reads == ("the method depends on the number of rounds",)


@pytest.mark.parametrize(("settings", "reads"), [({"until": 1.0}, False), ({"until": 0.5}, True)])
def test_a_method_reads_it_only_where_its_settings_ask_for_it(settings, reads, tmp_path):
    method = simulations.method("fedsac", **settings)
    outcome = federate(method, simulation(2), Saving(tmp_path / "c", "k", 1e9, state=tmp_path / "s"))
    assert bool(outcome.state.reads) is reads


@pytest.mark.parametrize("schedule", ["steps", "cosine"])
def test_a_schedule_that_depends_on_the_number_of_rounds_starts_over(schedule, tmp_path):
    shorter, _ = check_continued("fedavg", tmp_path, lr_schedule=schedule)
    assert shorter.state.reads == (f"the schedule '{schedule}' depends on the number of rounds",)


@pytest.mark.parametrize("name", ["fedavg_ft", "fedala", "perfedavg"])
def test_what_is_trained_after_the_last_round_is_trained_again(name, tmp_path):
    """At the last round's rate, which is another one in a longer run."""
    shorter, _ = check_continued(name, tmp_path, lr_schedule="exponential", lr_decay=0.5)
    assert not shorter.state.reads


def test_a_continued_run_that_is_interrupted_resumes(tmp_path):
    run("ditto", 3, tmp_path, "short")
    whole, origin = run("ditto", 8, tmp_path, "whole"), Origin(tmp_path / "short.state.pt", "short")
    with pytest.raises(Terminated):
        run("ditto", 8, tmp_path, "long", origin, ending_after(5, Terminated))
    remarks = []
    continued = run("ditto", 8, tmp_path, "long", origin, lambda progress, remark: remarks.append(remark))
    assert remarks[0].startswith("continuing after round 5") and bits(continued) == bits(whole)
    assert continued.progress.continued == 2


def test_the_last_round_is_done_again_for_artifacts(tmp_path):
    whole = run("fedsac", 3, tmp_path, "cell")
    again = run("fedsac", 3, tmp_path, "cell", Origin(tmp_path / "cell.state.pt", "cell"))
    assert bits(again) == bits(whole) and again.progress.continued == 2 and again.last is not None


def test_rows_in_a_file_are_copied(tmp_path, monkeypatch):
    monkeypatch.setattr(population, "IN_MEMORY", 0)
    check_continued("ditto", tmp_path)
    file = tmp_path / "short.state.pt"
    before, kept = rows_of(file).read_bytes(), file.read_bytes()
    run("ditto", 9, tmp_path, "longer", Origin(file, "short"))
    assert (rows_of(file).read_bytes(), file.read_bytes()) == (before, kept)
    copy_state(file, tmp_path / "copy.pt", "other")
    assert same_states(file, tmp_path / "copy.pt")
    rows_of(file).unlink()
    remarks = []
    run("ditto", 9, tmp_path, "again", Origin(file, "short"), lambda progress, remark: remarks.append(remark))
    assert "has lost states of clients" in remarks[0]


def test_a_single_round_keeps_its_start(tmp_path):
    outcome = run("fedavg", 1, tmp_path, "short")
    whole = run("fedavg", 3, tmp_path, "whole")
    assert outcome.state.rounds == 0
    assert bits(run("fedavg", 3, tmp_path, "long", Origin(tmp_path / "short.state.pt", "short"))) == bits(whole)


def test_a_diverged_cell_keeps_its_last_good_state(tmp_path):
    outcome = run("fedavg", 5, tmp_path, "short", lr=1e30)
    assert outcome.status == "diverged" and outcome.state.rounds == outcome.progress.rounds
    whole = run("fedavg", 8, tmp_path, "whole", lr=1e30)
    continued = run("fedavg", 8, tmp_path, "long", Origin(tmp_path / "short.state.pt", "short"), lr=1e30)
    assert (continued.status, continued.reason, bits(continued)) == (whole.status, whole.reason, bits(whole))


@pytest.mark.parametrize(
    ("change", "remark"),
    [
        (lambda file: file.write_bytes(file.read_bytes()[:-9]), "is damaged"),
        (lambda file: copy_state(file, file, "other"), "is that of another cell"),
        (lambda file: rewritten(file, lambda content: content.update(format=2)), "written by a later version"),
        (lambda file: rewritten(file, lambda content: content.pop("planned")), "written by an earlier version"),
    ],
)
def test_a_state_that_does_not_fit_is_left_alone(change, remark, tmp_path):
    run("fedavg", 2, tmp_path, "short")
    file = tmp_path / "short.state.pt"
    change(file)
    remarks = []
    run("fedavg", 3, tmp_path, "long", Origin(file, "short"), lambda progress, text: remarks.append(text))
    assert remark in remarks[0] and remarks[0].endswith("starting over")


def test_a_longer_run_is_not_taken_for_a_shorter_one(tmp_path):
    run("fedavg", 5, tmp_path, "long")
    remarks = []
    origin = Origin(tmp_path / "long.state.pt", "long")
    run("fedavg", 3, tmp_path, "short", origin, lambda progress, text: remarks.append(text))
    assert "is not that of a run of 3 rounds" in remarks[0]


def test_states_are_compared_bit_for_bit(tmp_path, monkeypatch):
    for key in ("one", "two"):
        run("ditto", 2, tmp_path, key)
    one, two = (tmp_path / f"{key}.state.pt" for key in ("one", "two"))
    assert same_states(one, two)
    save = rounds.save_state

    def moved(file, key, progress, planned):
        theta = progress.population.server.map(lambda t: torch.nextafter(t, t.new_tensor(torch.inf)))
        save(file, key, replace(progress, population=replace(progress.population, server=theta)), planned)

    monkeypatch.setattr(rounds, "save_state", moved)
    run("ditto", 2, tmp_path, "two")
    assert not same_states(one, two)
    two.write_bytes(b"")
    assert not same_states(one, two)
