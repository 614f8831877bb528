"""The file of a cell's final models: what its header says, and damage."""

import random

import pytest
import torch
from changed_models import write_changed
from earlier import train_all
from safetensors import safe_open
from studies import prepared, study_of

import fedgrid
from fedgrid.api.scoring import Scorer
from fedgrid.engine.local import client_data
from fedgrid.errors import Damaged, UserError
from fedgrid.files import read_metadata
from fedgrid.jobs import cell as cell_job
from fedgrid.jobs import models_file

FLIPS = 300


@pytest.fixture(scope="module")
def cell(tmp_path_factory):
    """A trained cell that keeps its models and predictions."""
    folder = tmp_path_factory.mktemp("models")
    study = study_of(methods=["fedper"], seeds=[0], artifacts=["models", "predictions"], results=str(folder / "r"))
    train_all(prepared(study))
    return study.cells[0]


@pytest.fixture
def file(cell):
    return cell.kept_beside(cell.file)["models"]


@pytest.fixture
def header(file):
    return models_file.read(file).header


def test_the_header_says_which_cell_it_is(cell, header):
    head = read_metadata(cell.file)
    assert {name: header[name] for name in ("key", "spec", "code", "modules", "score", "status", "rounds")} == {
        name: head[name] for name in ("key", "spec", "code", "modules", "score", "status", "rounds")
    }
    assert header["classes"] == list("0123456789") and header["images"]["shape"] == [8, 8, 1]
    assert (header["texts"], header["contains"], header["reference"]) == (None, "", "fedper")


def test_pixels_are_normalised_as_in_training(cell, header):
    data = client_data.load(cell.partition.data.files, cell.partition.file, torch.device("cpu"))
    images = header["images"]
    assert torch.equal(data.centre.flatten(), torch.tensor(images["mean"]) * images["scale"])
    assert torch.equal(data.spread.flatten(), torch.tensor(images["std"]) * images["scale"])
    assert data.white == images["scale"]


def test_a_cell_on_features_takes_features(tmp_path):
    data = {"name": "digits", "features": "random"}
    study = prepared(study_of(methods=["ditto"], seeds=[0], data=data, artifacts=["models"], results=str(tmp_path)))
    train_all(study)
    (cell,) = study.cells
    features = client_data.load(cell.partition.data.files, cell.partition.file, torch.device("cpu")).images
    module = fedgrid.load_model(cell.file, 1, "received")
    assert features.shape[2:] == (1, 1) and module(features[:5]).shape == (5, 10)
    with pytest.raises(UserError, match="this cell was trained on features, and only models of pictures"):
        next(Scorer(cell.file, 1).scores([tmp_path / "picture.png"]))


def test_any_reader_of_the_format_opens_it(file, header):
    with safe_open(file, framework="np") as opened:
        assert set(opened.keys()) == {tensor["name"] for tensor in header["tensors"]}
        assert all(opened.get_tensor(tensor["name"]).size for tensor in header["tensors"])


def test_a_flipped_bit_is_noticed(file, tmp_path):
    content, draw = file.read_bytes(), random.Random(0)
    in_header = int.from_bytes(content[:8], "little")
    places = [draw.randrange(in_header) for _ in range(FLIPS)] + [draw.randrange(len(content)) for _ in range(FLIPS)]
    copy = tmp_path / "copy.models.safetensors"
    for place in places:
        changed = bytearray(content)
        changed[place] ^= 1
        copy.write_bytes(changed)
        with pytest.raises(Damaged, match="damaged"):
            models_file.read(copy).check()


@pytest.mark.parametrize("share", [0, 1e-4, 0.1, 0.5, 0.99])
def test_a_shortened_file_is_noticed(file, tmp_path, share):
    content = file.read_bytes()
    copy = tmp_path / "copy.models.safetensors"
    copy.write_bytes(content[: int(share * len(content))])
    with pytest.raises(Damaged, match="damaged"):
        models_file.read(copy)


def test_other_files_are_refused(file, tmp_path):
    from safetensors.torch import save_file

    foreign = tmp_path / "foreign.safetensors"
    save_file({"weight": torch.zeros(3)}, foreign)
    with pytest.raises(Damaged, match="not a file of models written by fedgrid"):
        models_file.read(foreign)
    with pytest.raises(UserError, match="does not exist"):
        models_file.read(tmp_path / "none.safetensors")
    write_changed(file, tmp_path / "later.safetensors", {"format": models_file.FORMAT + 1})
    with pytest.raises(UserError, match="in a later format; update fedgrid"):
        models_file.read(tmp_path / "later.safetensors")


def test_a_cell_whose_models_are_damaged_is_not_finished(cell, file):
    content = file.read_bytes()
    assert cell_job._has_intact_results(cell, cell.file)
    file.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
    assert not cell_job._has_intact_results(cell, cell.file)
    file.write_bytes(content)
