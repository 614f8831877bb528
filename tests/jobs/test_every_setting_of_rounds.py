"""Under every setting of training, a cell that continues or takes rounds has the rows of one from nothing."""

import pytest
from earlier import train_all
from studies import prepared, study_of

from fedgrid.errors import UserError
from fedgrid.files import read_table
from fedgrid.grid.earlier.other_rounds import continuation, longer_run
from fedgrid.jobs.other_rounds import take
from fedgrid.settings import Training, description

METHODS = ("fedavg", "ditto", "fedcosr", "knn_per", "scaffold", "apple")
SHORT, LONG = 3, 5
SETTINGS = {
    "rounds": [],
    "local_epochs": [0, 2],
    "local_steps": [3],
    "batch_size": [5],
    "optimizer": ["adam"],
    "lr": [0.01],
    "lr_schedule": ["exponential", "steps", "cosine"],
    "lr_decay": [{"lr_decay": 0.5, "lr_schedule": "exponential"}],
    "momentum": [0.9],
    "weight_decay": [0.1],
    "clip": [0.5],
    "participation": [0.5],
    "dropout": [0.4],
    "dropout_at": [{"dropout_at": "start", "dropout": 0.4}],
    "stragglers": [0.4],
    "straggler_work": [{"straggler_work": 0.2, "stragglers": 0.4}],
    "new_clients": [0.25, {"new_clients": 0.25, "eval_every": 3}],
    "malicious": [0.25],
    "attack": [{"attack": "noise", "malicious": 0.25}],
    "attack_scale": [{"attack_scale": 2.0, "attack": "sign", "malicious": 0.25}],
    "aggregation": ["median"],
    "assumed_malicious": [{"assumed_malicious": 0.25, "aggregation": "trimmed"}],
    "augmentation": ["crop-flip"],
    "adversarial": [{"adversarial": {"steps": 2}}],
    "eval_every": [2, 3],
    "eval_sample": [{"eval_sample": 2, "eval_every": 3}],
    "evaluate": [["clean", "fgsm"], ["clean", "pgd20"]],
    "eval_eps": [{"eval_eps": 0.1, "evaluate": ["clean", "fgsm"]}],
    "dtype": ["bfloat16-mixed", "float64"],
    "tf32": [True],
}
"Values of every setting, or several settings where one alone does nothing."
CASES = [
    pytest.param(value if isinstance(value, dict) else {name: value}, id=f"{name} {value}")
    for name, values in SETTINGS.items()
    for value in values
]
REFUSED = {
    (method, setting)
    for method in ("scaffold", "apple")
    for setting in ("optimizer", "momentum", "attack", "aggregation")
}
"Methods with steps of their own, or that do more than average uploads, and settings that these do not heed."
OF_LAST_ROUNDS = ("new_clients", "evaluate")
"Settings with which the last rounds have rows that earlier ones lack."


def one_cell(rounds, training, method, results, artifacts=()):
    text = {"methods": [method], "seeds": [0], "artifacts": list(artifacts), "results": results}
    text["heterogeneity"] = [{"partition": "dirichlet", "beta": 0.5, "clients": 4, "fraction": 0.2}]
    return prepared(study_of(training=training | {"rounds": rounds}, **text))


def rows(study):
    """The results of the one cell of a study, which is trained in this process."""
    train_all(study)
    (cell,) = study.cells
    return read_table(cell.file)[0]


def check(training, method, artifacts):
    """Trains few rounds, from them more, out of more few, and compares with runs from nothing."""
    from_nothing = {n: rows(one_cell(n, training, method, f"new-{n}", artifacts)) for n in (SHORT, LONG)}
    rows(one_cell(SHORT, training, method, "grown", [*artifacts, "state"]))
    grown = one_cell(LONG, training, method, "grown", [*artifacts, "state"])
    run, obstacle = continuation(grown.cells[0])
    assert bool(run) is not obstacle.startswith(("the method", "the schedule")), obstacle
    assert rows(grown).equals(from_nothing[LONG])
    taken = one_cell(SHORT, training, method, f"new-{LONG}", artifacts)
    longer = longer_run(taken.cells[0])
    if longer is not None:
        take(taken.cells[0], taken.cells[0].file, longer)
        assert read_table(taken.cells[0].file)[0].equals(from_nothing[SHORT])
    return longer


def test_every_setting_is_tried():
    assert SETTINGS.keys() == {parameter["name"] for parameter in description(Training)["parameters"]}


@pytest.mark.parametrize("training", [{"new_clients": 0.25}, {"participation": 0.5, "dropout": 0.4}], ids=str)
def test_rows_of_continued_and_of_taken_rounds(training, working_folder):
    longer = check(training, "fedavg", ())
    assert (longer is None) is any(name in training for name in OF_LAST_ROUNDS)


@pytest.mark.full
@pytest.mark.parametrize("artifacts", [(), ("predictions", "models")], ids=["", "artifacts"])
@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("training", CASES)
def test_rows_under_every_setting(training, method, artifacts, working_folder):
    if any((method, name) in REFUSED for name in training):
        with pytest.raises(UserError):
            one_cell(SHORT, training, method, "refused")
        return
    longer = check(training, method, artifacts)
    if artifacts or any(name in training for name in OF_LAST_ROUNDS):
        assert longer is None
