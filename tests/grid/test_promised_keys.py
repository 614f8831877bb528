"""Keys that 1.x promises to keep: one for each component of the package, as tests/grid/promised_keys.csv lists them.

An edit that changes one makes users train again. If it has to be, CHANGELOG.md says under **Keys** which keys change
and why, and this lists them anew:

    PYTHONPATH=src:tests python tests/grid/test_promised_keys.py > tests/grid/promised_keys.csv
"""

import csv
import sys
from pathlib import Path

import pytest
from studies import study_of

from fedgrid.loading import names

FILE = Path(__file__).with_name("promised_keys.csv")
HEADER = ["kind", "name", "key"]
OF_FILES = {
    "data": {"folder", "huggingface", "table"},
    "models": {"fasttext", "har_cnn", "lstm", "transformer"},
    "partition": {"file", "imported"},
}
"Components whose keys cover files of the user; of models, those of texts and signals, which no other data set has."
STUDY = """
name: promised
data: digits
heterogeneity: [{partition: dirichlet, clients: 4}]
methods: [fedavg]
experiments: {one: {title: One.}}
"""
CAPTIONED = {"attributes": "image_text"}
"Models of data sets that have captions, which other models do not take."
WEIGHTS = {"timm": {"weights": "random"}}
"Settings of models whose weights are files or downloads."
CLIENTS = {"disparity": 2, "natural": 4}
"Of partitions that cannot have eight."
DOMAINS = {"domains": {}, "natural": {"by": "domain"}}
"Settings of partitions that need domains."


def current() -> list[list[str]]:
    """The keys of today: cells of each method and of each model, each partition of digits, each data set."""
    methods = {cell.row.component.name: cell.key for cell in study_of(STUDY, methods=["all"]).cells}
    rows = [["method", name, methods[name]] for name in names("methods")]
    for name in sorted(set(names("models")) - OF_FILES["models"]):
        data = "attributes" if name in CAPTIONED.values() else "cifar10"
        (cell,) = study_of(STUDY, model={"name": name} | WEIGHTS.get(name, {}), data=data).cells
        rows.append(["model", name, cell.key])
    for name in sorted(set(names("partition")) - OF_FILES["partition"]):
        data = "office10" if name in DOMAINS else "digits"
        kind = {"partition": name, "clients": CLIENTS.get(name, 8)} | DOMAINS.get(name, {})
        (cell,) = study_of(STUDY, heterogeneity=[kind], data=data).cells
        rows.append(["partition", name, cell.partition.key])
    for name in sorted(set(names("data")) - OF_FILES["data"]):
        (cell,) = study_of(STUDY, data=name, model=CAPTIONED.get(name, "mlp")).cells
        rows.append(["data", name, cell.partition.data.key])
    return rows


@pytest.fixture(scope="module")
def promised():
    with FILE.open(encoding="utf-8", newline="") as file:
        return [*csv.reader(file)]


def test_keys_are_those_that_were_promised(promised, working_folder):
    header, *rows = promised
    assert header == HEADER
    kept = {(kind, name): key for kind, name, key in rows}
    changed = [f"{kind} {name}" for kind, name, key in current() if kept.get((kind, name), key) != key]
    assert not changed, f"say in CHANGELOG.md, under Keys, why these keys change: {', '.join(changed)}"


def test_every_component_has_a_promised_key(promised, working_folder):
    assert [row[:2] for row in promised[1:]] == [row[:2] for row in current()]


if __name__ == "__main__":
    csv.writer(sys.stdout, lineterminator="\n").writerows([HEADER, *current()])
