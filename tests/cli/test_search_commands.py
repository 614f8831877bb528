"""What commands say of a study with a search, before and after its choice."""

from pathlib import Path

import pytest
import yaml
from earlier import make_earlier
from studies import FOUR_CELLS, prepared

import fedgrid
from fedgrid.analysis.scores.choice import choose
from fedgrid.api.study_file import read_study
from fedgrid.engine.state.saving import Saving
from fedgrid.errors import UserError
from fedgrid.files import write_json
from fedgrid.grid.study.codec import encode
from fedgrid.jobs.cell import train

FILE = Path("config/study.yaml")
CHANGES = {
    "heterogeneity": [{"partition": "dirichlet", "beta": 0.5, "clients": 4, "validation": 0.2}],
    "methods": {"fedprox": {"search": {"mu": [0.1, 1], "seeds": [7]}}},
    "seeds": [0],
    "training": {"rounds": 1},
}


@pytest.fixture
def study(working_folder):
    FILE.parent.mkdir()
    FILE.write_text(yaml.safe_dump(yaml.safe_load(FOUR_CELLS) | CHANGES))
    return prepared(read_study(FILE))


def train_all(cells, study):
    for cell in cells:
        train(cell, cell.file, study.compute, Saving(cell.checkpoint, cell.key, 1e9))


def make_choice(study):
    (search,) = study.experiments[0].searches
    write_json(search.rungs[0].file, encode(choose(study, search.key)))
    return search


def test_before_its_choice_a_cell_waits(study, output):
    text = output("plan", "--cells")
    assert "to run  fedprox (mu = 0.1), digits" in text and "seed 0  its settings wait for a search" in text
    assert "search: 0 of 1 choice made, 0 of 2 cells to choose by done, 1 cell of the tables waits for them" in text
    yet = "search     has yet to choose among 2 points, on seeds 7; the first stands here"
    assert yet in output("explain", "fedprox")
    of_study = fedgrid.study(FILE)
    assert sorted(of_study.cells["method"]) == ["fedprox", "fedprox (mu = 0.1)", "fedprox (mu = 1)"]
    assert len(of_study.plan()) == 3
    with pytest.raises(UserError, match="a search has yet to choose its settings; run the study first"):
        of_study.train("fedprox")


def test_trials_have_their_keys_alone(study, output):
    (search,) = study.experiments[0].searches
    assert "fedprox (mu = 0.1), digits" in output("explain", next(iter(search.trials())))
    output("explain", "fedprox")  # the cell of the table, and no trial


def test_results_under_other_code_count_before_the_choice_too(study, output):
    train_all(study.experiments[0].trials, study)
    search = make_choice(study)
    chosen = read_study(FILE)
    train_all(chosen.cells, chosen)
    for cell in chosen.by_key.values():
        make_earlier(cell)
    search.rungs[0].file.unlink()
    assert "3 cells have results under other code (tree edited)\n" in output("plan")


def test_a_choice_that_is_damaged_is_one_sentence(study, complaint):
    train_all(study.experiments[0].trials, study)
    make_choice(study).rungs[0].file.write_text("{}")
    assert "damaged" in complaint("plan")
