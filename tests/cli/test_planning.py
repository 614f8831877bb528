"""``fedgrid plan``: cells counted once, hours from finished cells or from a calibration, memory and disk."""

import csv
import json
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest
from studies import FOUR_CELLS, study_of

from fedgrid.engine.compute import CLIENTS_WORTH_A_CALL
from fedgrid.engine.local.loop import Loop
from fedgrid.engine.local.stacked import Stacked
from fedgrid.files import write_table
from fedgrid.grid.costs import measured
from fedgrid.grid.costs.around import BEGIN, NUMBERS_A_SECOND, PER_DATASET, PER_PAGE, PER_PARTITION, around
from fedgrid.grid.costs.forecast import (
    BYTES_A_FILE,
    BYTES_A_ROW,
    METRICS,
    WORTH_A_CALL,
    Loads,
    Prospect,
    Speed,
    Trial,
    clients_in_step,
    prospects,
    trained_in_a_round,
)
from fedgrid.grid.costs.formulas import formula_value
from fedgrid.grid.costs.needs import START
from fedgrid.grid.costs.spread import COUNTED, MEASURED, Spread, spread_of
from fedgrid.jobs import calibration
from fedgrid.partition.base import Expected
from fedgrid.quantities import estimate

CORES = 4
EXPERIMENTS = """
name: {name}
data: digits
heterogeneity: [{{partition: dirichlet, beta: 0.5, clients: 4}}]
seeds: [0, 1]
model: {{name: mlp, hidden: 16, features: 8}}
training: {{rounds: 2}}
methods: {{local: , fedavg: }}
scales: {{small: {{training: {{rounds: 1}}, seeds: [0]}}}}
experiments: {experiments}
"""
ONE = EXPERIMENTS.format(name="one", experiments="{table1: {methods: [fedavg]}, table2: {}}")
TWO = EXPERIMENTS.format(
    name="two", experiments="{table3: {methods: [local]}, table4: {cells: [], lacks: It cannot be said yet.}}"
)
BOTH = ["--configfile", "one.yaml", "two.yaml"]


@pytest.fixture(autouse=True)
def asked(folder, monkeypatch):
    """A machine of four cores that trains 10 and evaluates 100 images a second; the trials that were measured."""
    asked = []

    def speeds(trials):
        asked.extend(trials)
        return [Speed(10, 100) for _ in trials]

    monkeypatch.setattr("fedgrid.jobs.measurements.speeds", speeds)
    monkeypatch.setattr("fedgrid.jobs.machine.cores", lambda: CORES)
    (folder / "one.yaml").write_text(ONE)
    (folder / "two.yaml").write_text(TWO)
    return asked


@pytest.fixture
def planned(output):
    """What the command says to machines."""
    return lambda *arguments: json.loads(output("plan", *arguments, "--json"))


def finish(cell, seconds=36.0, megabytes=300, rounds=2, rows=100, device="cpu"):
    """Results of a cell as its job writes them, with these costs."""
    costs = {"seconds": {"total": seconds}, "peak_memory_bytes": megabytes * 1e6}
    head = {"key": cell.key, "status": "ok", "rounds": rounds, "spec": cell.spec, "costs": costs}
    head["hardware"] = {"device": device}
    write_table(cell.file, pa.table({"value": list(range(rows))}), head)
    return cell.file.stat().st_size


def left(*studies, **machine):
    """Prospects, where nothing may be measured but by `speeds`."""
    return prospects(studies, machine.get("speeds", lambda trials: pytest.fail("measured in vain")))


# -- cells


def test_cells_that_studies_and_experiments_share_count_once(planned):
    actual = planned(*BOTH)
    one, two = actual["studies"]
    assert {e["id"]: e["cells"] for e in one["experiments"] + two["experiments"]} == {
        "table1": 2,
        "table2": 4,
        "table3": 2,
        "table4": 0,
    }
    assert (one["all"]["cells"], two["all"]["cells"], actual["all"]["cells"]) == (4, 2, 4)
    assert actual["all"]["hours"] == pytest.approx(one["all"]["hours"]) == pytest.approx(2 * two["all"]["hours"])


def test_a_cell_of_which_one_study_keeps_more_is_not_cached_yet(planned, folder):
    (folder / "two.yaml").write_text(TWO + "artifacts: [representations]\n")
    cells = study_of(ONE).cells
    for cell in cells:
        finish(cell)
    one, two = planned(*BOTH)["studies"]
    assert one["all"]["cached"] == 2 and two["all"]["cached"] == 0


@pytest.mark.parametrize("results", ["results", "elsewhere"])
def test_only_cells_of_one_store_are_shared(planned, folder, results):
    (folder / "two.yaml").write_text(f"{TWO}results: {results}\n")
    assert planned(*BOTH)["all"]["cells"] == (4 if results == "results" else 6)


def test_a_scale_is_that_of_every_file(planned):
    actual = planned(*BOTH, "--scale", "small")
    assert [(one["scale"], one["all"]["cells"]) for one in actual["studies"]] == [("small", 2), ("small", 1)]
    assert actual["all"]["cells"] == 2


def test_only_chooses_from_the_studies_that_have_it(planned, complaint):
    actual = planned(*BOTH, "--only", "table2, table3")
    assert [[e["id"] for e in one["experiments"]] for one in actual["studies"]] == [["table2"], ["table3"]]
    assert [one["name"] for one in planned(*BOTH, "--only", "table3")["studies"]] == ["two"]
    assert "did you mean 'table2'" in complaint("plan", *BOTH, "--only", "tabel2")


def test_a_mistake_in_one_of_several_files_names_the_file(complaint, folder):
    (folder / "two.yaml").write_text(TWO.replace("dirichlet", "dirichlt"))
    assert complaint("plan", *BOTH).startswith("fedgrid: two.yaml:")


# -- what is printed


def test_a_plain_study_has_a_line_for_each_row_and_its_hours(output):
    finish(study_of().cells[0], seconds=7200)
    lines = output("plan", "--configfile", "study.yaml").splitlines()
    assert lines[:3] == [
        "local      1 cached     1 to run",
        "fedavg     0 cached     2 to run",
        "s: 4 cells, 1 cached, 3 to run",
    ]
    assert (
        len(lines) == 4
        and lines[3].startswith("left: about 33 min on 4 cores, ")
        and "1 of these cells estimated" in lines[3]
    )


def test_where_all_is_cached_nothing_is_left(output, asked):
    for cell in study_of().cells:
        finish(cell)
    *_, last = output("plan", "--configfile", "study.yaml").splitlines()
    assert last.startswith("left: nothing; planned in ") and not asked


def test_a_line_for_each_experiment_and_a_total_for_each_study(output):
    finish(study_of(ONE).cells[0])
    lines = output("plan", *BOTH).splitlines()
    table = [line for line in lines if line.startswith(("one", "two", " ", "all, ")) and "lacks" not in line]
    assert len({len(line) for line in table}) == 1
    assert [line.split()[:3] for line in table if line.startswith(("one", "two"))] == [
        ["one/table1", "2", "1"],
        ["one/table2", "4", "1"],
        ["two/table3", "2", "0"],
        ["two/table4", "0", "0"],
    ]
    assert sum("all, shared cells once" in line for line in table) == 2
    assert "two/table4 lacks: It cannot be said yet." in lines
    assert lines[-2] == "all: 4 cells, 1 cached, 3 to run"
    assert lines[-1].startswith("left: about ") and f"{CORES} cores" in lines[-1]


def test_cells_are_listed_once(output):
    lines = output("plan", *BOTH, "--cells").splitlines()
    listed = [line for line in lines if line.startswith(("cached", "to run"))]
    assert len(listed) == len(set(listed)) == 4
    assert all(re.match(r"(cached|to run)  (local|fedavg), digits, .*, seed \d  .*\.parquet$", line) for line in listed)


def test_unavailable_data_are_reported_and_in_no_estimate(output, planned, folder):
    (folder / "two.yaml").write_text(TWO.replace("digits", "{name: cifar10, side: 8}") + "download: false\n")
    text = output("plan", *BOTH)
    assert "2 cells lack data and are not in the estimates: 'cifar10' is not at hand" in text
    two = planned(*BOTH)["studies"][1]
    assert (two["all"]["without_data"], two["all"]["hours"], two["all"]["disk"]) == (2, 0, 0)
    assert list(two["experiments"][0]["data"].values()) == [2]


def test_the_range_of_earlier_forecasts_is_printed_and_is_the_measured_one(output, planned):
    (file,) = (Path(__file__).parents[2] / "benchmarks/results").glob("forecast-error.csv")
    with open(file, encoding="utf-8", newline="") as lines:
        rows = {row["forecast"]: Spread(float(row["low"]), float(row["high"])) for row in csv.DictReader(lines)}
    assert rows == {"measured": MEASURED, "counted": COUNTED}
    line = output("plan", "--configfile", "study.yaml").splitlines()[-1]
    assert f"8 of 10 cells take {COUNTED.low:.1f} to {COUNTED.high:.1f} times their estimate" in line
    actual = planned("--configfile", "study.yaml")
    assert actual["times_estimate"] == {"low": COUNTED.low, "high": COUNTED.high}


def test_kinds_of_forecasts_count_by_their_seconds():
    cell = study_of().cells[0]
    of = [Prospect(cell, False, 30.0, measured=True), Prospect(cell, False, 10.0), Prospect(cell, True)]
    assert spread_of(of).low == pytest.approx((3 * MEASURED.low + COUNTED.low) / 4)
    assert spread_of(of).high == pytest.approx((3 * MEASURED.high + COUNTED.high) / 4)
    assert spread_of(of[2:]) is None


def test_the_cores_of_a_run_may_be_given(planned, complaint):
    here, there = planned("--configfile", "study.yaml"), planned("--configfile", "study.yaml", "--cores", "32")
    assert (here["cores"], there["cores"]) == (CORES, 32)
    assert there["all"]["hours"] == pytest.approx(here["all"]["hours"] * CORES / 32)
    assert there["all"]["core_hours"] == here["all"]["core_hours"] == pytest.approx(32 * there["all"]["hours"])
    assert "--cores: must be at least 1, got 0" in complaint("plan", "--configfile", "study.yaml", "--cores", "0")


# -- GPUs


@pytest.fixture
def on_gpu(folder, monkeypatch):
    """A study of a machine with two cards, of which each takes two cells."""
    monkeypatch.setattr("fedgrid.jobs.gpus.cards", lambda *environment: ["0", "1"])
    text = FOUR_CELLS + "compute: {device: cuda, gpu_share: 2}\n"
    (folder / "study.yaml").write_text(text)
    return text


def test_a_core_says_nothing_of_a_gpu(on_gpu, output, planned, asked):
    line = output("plan", "--configfile", "study.yaml").splitlines()[-1]
    assert line.startswith("left: the time of 4 GPU cells is unknown until one has been measured; planned in ")
    actual = planned("--configfile", "study.yaml")["all"]
    assert (actual["unknown"], actual["hours"], actual["measured"]) == (4, 0, 0) and not asked


def test_hours_of_gpus(on_gpu, output, planned):
    finish(study_of(on_gpu).cells[0], seconds=3600 - START, device="NVIDIA H100")
    actual = planned("--configfile", "study.yaml", "--cores", "8")["all"]
    assert (actual["unknown"], actual["measured"]) == (2, 1)
    assert (actual["core_hours"], actual["gpu_hours"], actual["hours"]) == (1, 0.5, 0.25)
    line = output("plan", "--configfile", "study.yaml", "--cores", "2").splitlines()[-1]
    assert line.startswith(
        "left: about 30 min on 2 cores, a cell on each (1 core-hours, 0.5 GPU-hours, 20 s to begin, "
    )
    assert "; the time of 2 GPU cells is unknown until one has been measured; 1 of these" in line


# -- seconds, memory, disk


def test_finished_cells_replace_all_guesses(planned, asked):
    study = study_of()
    sizes = [finish(study.cells[number], seconds, 200 + seconds) for number, seconds in ((0, 36), (2, 72))]
    actual = planned("--configfile", "study.yaml")["all"]
    assert actual["hours"] == pytest.approx((36 + 72 + 2 * START) / 3600 / CORES) and not asked
    assert actual["memory"] == pytest.approx(272)
    assert actual["disk"] == pytest.approx(sum(sizes) / 1e6)
    assert actual["measured"] == 2


def test_what_is_measured_is_scaled_to_the_rounds():
    finish(study_of().cells[0], seconds=10)
    (one,) = left(study_of(methods=["local"], seeds=[5], training={"rounds": 20})).values()
    assert one.seconds == pytest.approx(100)


@pytest.mark.parametrize(
    "other",
    [
        {"model": {"name": "mlp", "hidden": 512}},
        {"training": {"rounds": 2, "local_epochs": 9}},
        {"heterogeneity": [{"partition": "pathological", "clients": 40}]},
        {"data": {"name": "digits", "side": 32}},
    ],
)
def test_a_cell_that_costs_something_else_says_nothing(other):
    finish(study_of().cells[0])
    assert measured.cost(study_of().cells[1])
    assert measured.cost(study_of(**other).cells[1]) is None


def test_cells_of_another_heterogeneity_serve_as_precedents():
    finish(study_of().cells[0], seconds=5)
    other = study_of(heterogeneity=[{"partition": "homogeneous", "clients": 4}])
    assert measured.cost(other.cells[1]).seconds == 5
    finish(other.cells[0], seconds=6)
    assert measured.cost(other.cells[1]).seconds == 6


def test_a_calibration_counts_images_where_nothing_is_measured(planned, asked):
    actual = planned("--configfile", "study.yaml")["all"]
    load = Loads().of(study_of().cells[0], None)
    train, test = 1348, 1797 - 1348  # three quarters of the images of digits
    assert load.trained == pytest.approx(2 * train, abs=8)
    assert load.evaluated == pytest.approx(3 * 2 * test, abs=24)  # before, between, after; at two points
    assert actual["hours"] == pytest.approx(4 * (load.trained / 10 + load.evaluated / 100 + START) / 3600 / CORES)
    assert actual["memory"] == 2000
    assert actual["disk"] == pytest.approx(4 * (BYTES_A_FILE + BYTES_A_ROW * 3 * 4 * METRICS) / 1e6)
    assert [(trial.model.name, trial.shape, trial.classes, trial.batch_size) for trial in asked] == [
        ("mlp", (8, 8, 1), 10, 16)
    ]


def test_every_model_shape_and_batch_size_is_measured_once():
    texts = [FOUR_CELLS, FOUR_CELLS, FOUR_CELLS.replace("rounds: 2", "rounds: 2, batch_size: 8")]
    texts += [FOUR_CELLS.replace("hidden: 16", "hidden: 32"), FOUR_CELLS.replace("data: digits", "data: synthetic")]
    asked = []
    left(*map(study_of, texts), speeds=lambda trials: asked.extend(trials) or [Speed(1, 1) for _ in trials])
    assert len(asked) == len({trial.name for trial in asked}) == 4


@pytest.mark.parametrize(
    ("partition", "clients", "together"),
    [("homogeneous", 8, True), ("homogeneous", 4, False), ("dirichlet", 8, False), ("dirichlet", 100, True)],
)
def test_small_models_are_measured_one_by_one_where_clients_fall_out_of_step(partition, clients, together):
    """In step were 7.3 of 8 homogeneous clients of digits, 4.0 of 8 and 8.8 of 100 with Dirichlet's partition."""
    study = study_of(heterogeneity=[{"partition": partition, "clients": clients}])
    trial = Loads().of(study.cells[0], None).trial
    assert trial.in_step is together and WORTH_A_CALL == CLIENTS_WORTH_A_CALL
    assert isinstance(calibration._simulation(trial).executor, Stacked if together else Loop)


def test_a_part_of_the_clients_is_in_step_where_some_take_part():
    half, all_of_them = (study_of(training={"rounds": 1, "participation": p}).cells[0] for p in (0.5, 1.0))
    images = Expected(4, 400, 0, 100)
    assert clients_in_step(half, images) == pytest.approx(clients_in_step(all_of_them, images) / 2)


@pytest.mark.parametrize("partition", ["homogeneous", "dirichlet"])
@pytest.mark.parametrize(
    "solver", [{"dtype": "float64"}, {"dtype": "bfloat16-mixed"}, {"augmentation": "crop-flip"}, {"clip": 1.0}]
)
def test_any_solver_can_be_measured(solver, partition):
    heterogeneity = [{"partition": partition, "clients": 8}]
    cell = study_of(training={"rounds": 1} | solver, heterogeneity=heterogeneity).cells[0]
    assert calibration.speed(Loads().of(cell, None).trial, 0.01).train > 0


def test_a_calibration_takes_the_steps_of_the_study():
    solver = {"optimizer": "adam", "augmentation": "crop-flip", "weight_decay": 0.1}
    trial = Loads().of(study_of(training={"rounds": 1} | solver).cells[0], None).trial
    training = calibration._simulation(trial).training
    assert {name: getattr(training, name) for name in solver} == solver


@pytest.mark.parametrize("clients, batch", [(4, 256), (40, 34)])
def test_a_batch_is_measured_no_larger_than_clients_fill_or_is_of_use(clients, batch):
    heterogeneity = [{"partition": "dirichlet", "clients": clients}]
    cell = study_of(training={"rounds": 1, "batch_size": 10**9}, heterogeneity=heterogeneity).cells[0]
    assert Loads().of(cell, None).trial.batch_size == pytest.approx(batch, abs=1)


@pytest.mark.parametrize(
    "training, images",
    [
        ({}, 400),
        ({"local_epochs": 5}, 2000),
        ({"participation": 0.5}, 200),
        ({"participation": 0.01}, 100),
        ({"local_steps": 7, "batch_size": 3}, 4 * 7 * 3),
        ({"local_steps": 7, "batch_size": 3, "participation": 0.5}, 2 * 7 * 3),
        ({"local_steps": 7, "batch_size": 10**9}, 4 * 7 * 100),
        ({"local_epochs": 0}, 0),
    ],
)
def test_images_of_a_round(training, images):
    cell = study_of(training={"rounds": 2} | training).cells[0]
    assert trained_in_a_round(cell, Expected(4, 400, 0, 100)) == pytest.approx(images)


@pytest.mark.parametrize(
    "method, training, images",
    [
        ({"method": "ditto"}, {"local_epochs": 3}, 6 * 400),
        ({"method": "pfedhn", "local_steps": 5}, {"batch_size": 10}, 4 * 5 * 10),
        ({"method": "pfedhn", "local_steps": None}, {"local_steps": 6, "batch_size": 10}, 4 * 6 * 10),
        ({"method": "fedala", "rand_percent": 50}, {"local_epochs": 2}, 2.5 * 400),
        ({"method": "fedpac", "head_epochs": 1}, {"local_steps": 6, "batch_size": 10}, 400 + 4 * 6 * 10),
    ],
)
def test_a_method_trains_as_its_formula_says(method, training, images):
    cell = study_of(methods={"it": method}, training={"rounds": 2} | training).cells[0]
    assert trained_in_a_round(cell, Expected(4, 400, 0, 100)) == pytest.approx(images)


def test_without_images_nothing_is_trained_and_an_unreadable_formula_counts_as_epochs():
    cell = study_of().cells[0]
    assert trained_in_a_round(cell, Expected(4, 0, 0, 100)) == 0
    odd = replace(cell, row=replace(cell.row, work="as much as it likes"))
    assert trained_in_a_round(odd, Expected(4, 400, 0, 100)) == 400


@pytest.mark.parametrize(
    "formula, value",
    [("E", 3), ("2E", 6), ("2·E", 6), ("a / 100 + E", 3.5), ("a batches", 25), ("|θ| + (E + 1)·k", 27), ("0", 0)],
)
def test_formulas_in_numbers(formula, value):
    numbers = {"E": 3, "a": 50, "batches": 0.5, "|θ|": 7, "k": 5}
    assert formula_value(formula, numbers) == pytest.approx(value)


def test_a_calibration_measures_on_one_thread_and_leaves_the_threads_as_they_were(threads):
    import torch

    threads(2)
    mlp = study_of().cells[0].model
    cnn = replace(mlp, name="cnn", reference="cnn", settings={})
    actual = calibration.speeds([Trial(mlp, (8, 8, 1), 10, 16), Trial(cnn, (16, 16, 3), 10, 8)])
    assert len(actual) == 2 and all(speed.train > 0 and speed.evaluate > 0 for speed in actual)
    assert torch.get_num_threads() == 2


def test_at_least_two_batches_are_measured_after_one_that_warms_up(monkeypatch):
    clock = iter(range(100))
    monkeypatch.setattr("time.process_time", lambda: next(clock))
    done = []
    assert calibration._rate(lambda batches: done.append(batches) or 10 * batches, share=0.5) == 20
    assert done == [1, 2]


def test_planning_does_not_import_torch(folder):
    study_of()  # methods are described, which needs torch, and their descriptions kept
    code = (
        "import sys; from pathlib import Path; from fedgrid.api.study_file import read_study\n"
        "from fedgrid.cli import planning; from fedgrid.grid.costs.forecast import Speed, prospects\n"
        "found = prospects([read_study(Path('study.yaml'))], lambda trials: [Speed(1, 1) for _ in trials])\n"
        "assert len(found) == 4 and 'torch' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_what_a_run_takes_beside_its_cells():
    study = study_of()
    digits = PER_DATASET + 1797 * 64 / NUMBERS_A_SECOND
    assert around([study], study.cells, 2) == BEGIN + PER_PAGE + digits + 2 * PER_PARTITION / 2
    for cell in study.cells:
        for file in cell.needs:
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(b"")
    assert around([study], study.cells[:1], 2) == BEGIN + PER_PAGE
    assert around([study], [], 2) == 0


# -- models

AT_MOST = "up to 0.21 MB (3 models a client; most methods keep fewer)"  # 4 cells · 13 models · 4 kB


@pytest.fixture
def sized(monkeypatch):
    """A network of 1,000 numbers."""
    monkeypatch.setattr("fedgrid.jobs.measurements.sizes", lambda trials: [1000] * len(trials))


def of_models(output, file):
    return [line for line in output("plan", "--configfile", file).splitlines() if line.startswith("models of ")]


def test_models_take_at_most_three_for_each_client_and_one_for_all(folder, output, sized):
    (folder / "models.yaml").write_text(FOUR_CELLS + "artifacts: [models]\n")
    assert of_models(output, "models.yaml") == [f"models of 4 cells: {AT_MOST}"]
    (folder / "double.yaml").write_text(
        FOUR_CELLS.replace("rounds: 2", "rounds: 2, dtype: float64") + "artifacts: [models]"
    )
    assert of_models(output, "double.yaml") == [f"models of 4 cells: {AT_MOST.replace('0.21', '0.42')}"]
    (folder / "none.yaml").write_text(FOUR_CELLS)
    assert of_models(output, "none.yaml") == []


def test_models_of_finished_cells_say_how_large_others_are(folder, output, sized):
    study = study_of(artifacts=["models"])
    for number in (0, 2):
        finish(study.cells[number])
        study.cells[number].kept_beside(study.cells[number].file)["models"].write_bytes(b"x" * 500_000)
    (folder / "models.yaml").write_text(FOUR_CELLS + "artifacts: [models]\n")
    assert of_models(output, "models.yaml") == ["models of 2 cells: about 1 MB"]


def test_states_have_a_line_too(folder, output, sized):
    (folder / "states.yaml").write_text(FOUR_CELLS + "artifacts: [state]\n")
    lines = output("plan", "--configfile", "states.yaml").splitlines()
    assert f"states of 4 cells: {AT_MOST}" in lines


def test_what_models_carry_is_named(folder, output, sized):
    text = FOUR_CELLS.replace("[local, fedavg]", "[knn_per, fedavg]") + "artifacts: [models]\n"
    (folder / "models.yaml").write_text(text)
    assert of_models(output, "models.yaml") == [f"models of 4 cells: {AT_MOST}, and what kNN-Per carries"]


def test_the_numbers_of_a_network_are_counted():
    trial = Loads().of(study_of().cells[0], None).trial
    assert calibration.sizes([trial]) == [64 * 16 + 16 + 16 * 8 + 8 + 8 * 10 + 10]


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0, "0 s"), (0.2, "1 s"), (59, "59 s"), (90, "2 min"), (3599, "60 min"), (5400, "1.5 h"), (36_000, "10 h")],
)
def test_estimates_are_in_their_largest_unit(seconds, text):
    assert estimate(seconds) == text


def test_a_title_of_a_row_stands_beside_its_label(folder, output):
    methods = '{fedavg_ft: , strong: {method: fedprox, mu: 1.0, title: "FedProx, pulled hard"}}'
    (folder / "titled.yaml").write_text(FOUR_CELLS.replace("[local, fedavg]", methods))
    lines = output("plan", "--configfile", "titled.yaml").splitlines()
    assert lines[:2] == [
        "fedavg_ft     0 cached     2 to run",
        "strong        0 cached     2 to run  FedProx, pulled hard",
    ]
