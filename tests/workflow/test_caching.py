"""What an edit recomputes: exactly what depends on it."""

import fcntl
import shutil

import pyarrow.parquet as pq
import pytest
from forked import Forked
from tiers import every_third

ANALYSIS = {"manifest": 1, "experiment": 1}
METHODS = "src/fedgrid/methods/"
EVERY = {name: 2 for name in ("local", "fedavg", "fedprox", "fedper", "fedcosr")}
NOTHING = [
    (METHODS + "fedavg.py", "class FedAvg", "# why\nclass FedAvg"),
    ("src/fedgrid/engine/rounds.py", '"""The rounds of one cell', '"""All rounds of one cell'),
    (METHODS + "fedprox.py", '"Weight μ', '"The weight μ'),
    (METHODS + "fedprox.py", "self.mu / 2 *", "(self.mu\n            / 2) *"),
    ("config/study.yaml", "mu: 0.01", "mu: 1.0e-2"),
    ("src/fedgrid/models/cnn.py", "smallest = 16", "smallest = 17"),
    ("src/fedgrid/data/mnist.py", "0.1307", "0.1308"),
    ("src/fedgrid/run/cell_states.py", '"missing": "·"', '"missing": "-"'),
    ("src/fedgrid/jobs/cell.py", "already finished by", "finished by"),
    ("src/fedgrid/errors.py", "did you mean", "do you mean"),
    ("workflow/rules/train.smk", "WARM=1 job", "WARM=1  job"),
]
"""Edits that change no number: a comment, docstrings, formatting, a setting written otherwise, a model and a data set
that no cell uses, a command, how a cell is run, an error's sentence, a rule's shell text."""
CASES = {
    "nothing that counts": (NOTHING, {}),
    "a seed": (
        [("config/study.yaml", "[0, 1]", "[0, 1, 2]")],
        {name: 1 for name in EVERY} | {"partition": 1} | ANALYSIS,
    ),
    "a hyperparameter in the study": ([("config/study.yaml", "mu: 0.01", "mu: 0.02")], {"fedprox": 2} | ANALYSIS),
    "a default of a method": ([(METHODS + "fedprox.py", "0.01, low=0", "0.02, low=0")], {"fedprox": 2} | ANALYSIS),
    "a method that another imports": (
        [(METHODS + "fedavg.py", 'score = "global"', 'score = "trained"')],
        {"fedavg": 2, "fedprox": 2} | ANALYSIS,
    ),
    "the engine": (
        [
            (
                "src/fedgrid/engine/local/executor.py",
                "_increased(self.steps, rows, 1)",
                "_increased(self.steps, rows, int(True))",
            )
        ],
        EVERY | ANALYSIS,
    ),
    "analysis": ([("src/fedgrid/analysis/figures/common/style.py", '"font.size": 9', '"font.size": 8')], ANALYSIS),
    "the report's template": ([("src/fedgrid/analysis/pages/templates/report.css", "{", " {")], ANALYSIS),
}
"Which keys change with each module stands in tests/grid/test_keys.py; here Snakemake draws the consequences."


@pytest.fixture(scope="module")
def finished(tmp_path_factory, forker):
    checkout = Forked(tmp_path_factory.mktemp("finished") / "tree")
    checkout.snakemake()
    return checkout


@pytest.mark.parametrize("case", every_third([*CASES]))
def test_edit(checkout, case):
    edits, expected = CASES[case]
    for edit in edits:
        checkout.edit(*edit)
    assert checkout.planned() == expected


@pytest.mark.full
def test_a_deleted_cell_is_trained_again_and_equal(checkout):
    cell = checkout.cells()[3]
    before = pq.read_table(cell).to_pydict()
    cell.unlink()
    assert checkout.planned() == {cell.parts[-4]: 1} | ANALYSIS
    checkout.snakemake()
    assert pq.read_table(cell).to_pydict() == before
    assert checkout.planned() == {}


def test_finished_cells_need_neither_their_partition_nor_their_data(checkout):
    store = checkout.path / "results/store"
    shutil.rmtree(store / "data")
    shutil.rmtree(store / "partitions")
    assert checkout.planned() == {}
    shutil.rmtree(checkout.path / "results/tiny/figures")
    assert checkout.planned() == {"data": 1, "partition": 1, "experiment": 1}


def test_touching_anything_does_nothing(checkout):
    for path in checkout.path.rglob("*"):
        if path.is_file() and ".snakemake" not in path.parts:
            path.touch()
    assert checkout.planned() == {}


@pytest.mark.full
def test_nothing_is_lost_with_snakemakes_own_records(checkout):
    shutil.rmtree(checkout.path / ".snakemake")
    assert checkout.planned() == {}
    checkout.edit(METHODS + "fedcosr.py", "clamp(min=1)", "clamp(min=2)")
    assert checkout.planned() == {"fedcosr": 2} | ANALYSIS


@pytest.mark.full
def test_an_edit_that_is_taken_back_costs_nothing(checkout):
    table = checkout.path / "results/tiny/tables/accuracy.csv"
    before = table.read_bytes()
    checkout.edit("config/study.yaml", "mu: 0.01", "mu: 10.0")
    assert checkout.planned() == {"fedprox": 2} | ANALYSIS
    checkout.snakemake()
    assert table.read_bytes() != before
    checkout.edit("config/study.yaml", "mu: 10.0", "mu: 0.01")
    assert checkout.planned() == ANALYSIS
    checkout.snakemake()
    assert table.read_bytes() == before


@pytest.mark.full
def test_a_second_run_on_the_store_is_refused_in_one_sentence(checkout):
    cell = checkout.cells()[0]
    cell.unlink()
    with open(checkout.path / "results/store/.lock", "w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        output = checkout.snakemake(code=2)
        assert output.count("is in use by another run") == 1 and "Traceback" not in output
        assert checkout.planned()  # looking is allowed
    checkout.snakemake("--until", "train")
    assert cell.is_file()


def test_the_order_of_seeds_decides_which_partition_is_pictured(checkout):
    checkout.edit("config/study.yaml", "[0, 1]", "[1, 0]")
    assert checkout.planned() == ANALYSIS


@pytest.mark.full
def test_tables_follow_the_code_after_a_run_of_the_results_alone(checkout):
    checkout.edit("src/fedgrid/analysis/prose/captions.py", "A dash stands for", "A bar stands for")
    assert "Requested targets are done. Other tables" in checkout.snakemake("results/tiny/results.parquet")
    checkout.snakemake()
    assert "A bar stands for" in (checkout.path / "results/tiny/tables/accuracy.md").read_text()


def test_a_study_without_methods_is_not_filled_from_the_default_one(checkout):
    study = "{name: other, data: digits, heterogeneity: [{partition: dirichlet}]}"
    (checkout.path / "config/other.yaml").write_text(study)
    output = checkout.snakemake("--configfile", "config/other.yaml", "--dry-run", code=2)
    assert "fedgrid: config/other.yaml:1: the key 'methods' is missing" in output


@pytest.mark.full
def test_a_method_in_a_scratch_folder(checkout, tmp_path):
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    (scratch / "mine.py").write_text(
        '"""Mine."""\nfrom fedgrid.methods.fedavg import FedAvg\n\n\nclass Mine(FedAvg):\n'
        "    def loss(self, *given):\n        return 2 * super().loss(*given)\n"
    )
    checkout.edit("config/study.yaml", "  local:\n", f"  local:\n  my own: {{method: {scratch}/mine.py}}\n")
    assert checkout.planned() == {"mine": 2} | ANALYSIS
    checkout.snakemake()
    assert len([cell for cell in checkout.cells() if "mine" in cell.parts]) == 2
    assert "| my own (own file) |" in (checkout.path / "results/tiny/tables/accuracy.md").read_text()
    (scratch / "mine.py").write_text((scratch / "mine.py").read_text().replace("2 *", "3 *"))
    assert checkout.planned() == {"mine": 2} | ANALYSIS


@pytest.mark.full
def test_artifacts_are_made_once_and_change_no_result(checkout):
    before = {cell: pq.read_table(cell) for cell in checkout.cells()}
    checkout.edit("config/study.yaml", "seeds:", "artifacts: [representations, cooperation]\nseeds:")
    assert checkout.planned() == EVERY | ANALYSIS
    checkout.snakemake()
    assert checkout.planned() == {}
    for cell, table in before.items():
        assert pq.read_table(cell) == table
        kept = pq.read_table(cell.with_suffix(".representations.parquet"))
        assert kept.num_rows > 0 and kept.column_names == ["client", "label", "representation"]
        assert cell.with_suffix(".cooperation.parquet").is_file()
    cell.with_suffix(".cooperation.parquet").unlink()
    assert checkout.planned() == {cell.parts[-4]: 1} | ANALYSIS
    checkout.edit("config/study.yaml", "artifacts: [representations, cooperation]\n", "")
    assert checkout.planned() == ANALYSIS  # whose figures may be drawn from what is kept


def test_another_study_takes_finished_cells_from_the_store(checkout):
    checkout.edit("config/study.yaml", "name: tiny", "name: twin")
    checkout.edit("config/study.yaml", "  local:\n", "")
    assert checkout.planned() == ANALYSIS
