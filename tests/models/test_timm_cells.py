"""Cells whose model starts from weights of timm: keys, bytes, every way to train, and final models."""

from importlib.util import find_spec
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file
from studies import study_of

import fedgrid
from fedgrid.errors import UserError
from fedgrid.files import read_table
from fedgrid.grid.costs.forecast import Trial
from fedgrid.grid.plan import product
from fedgrid.jobs import calibration
from fedgrid.jobs.cell import Saving, train
from fedgrid.jobs.partition import prepare
from fedgrid.models.common.pretrained import library

if find_spec("timm") is None:
    pytest.skip("timm is not installed: pip install 'fedgrid[features]'", allow_module_level=True)

BACKBONE, WIDTH, CLASSES = "test_resnet", 96, 3
DATA = {"name": "synthetic", "train_images": 60, "test_images": 20, "size": 16, "channels": 1, "class_count": CLASSES}
HEAD = 4 * (WIDTH + 1) * CLASSES
"Bytes of the head."


@pytest.fixture(scope="module")
def weights(tmp_path_factory):
    """A file of weights."""
    file = tmp_path_factory.mktemp("weights") / "a.safetensors"
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        save_file(library().create_model(BACKBONE).state_dict(), file)
    return file


def study(weights, folder, methods=("fedavg",), **changes):
    model = {"name": "timm", "backbone": BACKBONE, "weights": str(weights)} | changes.pop("model", {})
    training = {"rounds": 2, "batch_size": 8, "local_steps": 2}
    given = {"data": DATA, "training": training, "seeds": [0], "methods": [*methods], "results": str(folder)}
    return study_of(model=model, **given | changes)


def trained(cell, planned):
    prepare(cell.partition, planned)
    train(cell, cell.file, planned.compute, Saving(cell.checkpoint, cell.key, every=1e9))
    return read_table(cell.file)[0].to_pandas()


def key(*args, **changes):
    (cell,) = study(*args, **changes).cells
    return cell.key


def test_the_content_of_the_weights_is_in_the_key_and_their_place_is_not(weights, tmp_path):
    copy, other = tmp_path / "b.safetensors", tmp_path / "c.safetensors"
    copy.write_bytes(weights.read_bytes())
    save_file({name: t + 1 for name, t in load_file(weights).items()}, other)
    first = key(weights, tmp_path)
    assert first == key(copy, tmp_path)
    assert len({first, key(other, tmp_path), key("random", tmp_path), key("hub", tmp_path)}) == 4
    assert first != key(weights, tmp_path, model={"train": "head"})
    copy.write_bytes(other.read_bytes())
    assert key(copy, tmp_path) == key(other, tmp_path)


def test_weights_lie_beside_the_study(weights, working_folder):
    Path("studies").mkdir()
    Path("studies/w.safetensors").write_bytes(weights.read_bytes())
    text = "{name: s, data: digits, heterogeneity: [{partition: homogeneous}], methods: [fedavg], model: {name: timm, "
    Path("studies/s.yaml").write_text(text + "backbone: test_resnet, weights: w.safetensors}}")
    (cell,) = product.planned_study(fedgrid.grid.study.yaml_file.read(Path("studies/s.yaml"))).cells
    assert cell.model.settings["weights"] == "studies/w.safetensors" and len(cell.spec["model"]["weights"]) == 64


def test_weights_that_are_not_there_are_refused_when_planning(tmp_path):
    with pytest.raises(UserError, match=r"model.weights: there is no file none\.pth; name a file, or hub or random"):
        study("none.pth", tmp_path)


def test_weights_that_change_after_planning_are_refused(weights, tmp_path):
    mine = tmp_path / "mine.safetensors"
    mine.write_bytes(weights.read_bytes())
    planned = study(mine, tmp_path)
    save_file({"fc.weight": torch.zeros(1)}, mine)
    with pytest.raises(UserError, match="has been edited since this cell was planned"):
        trained(planned.cells[0], planned)


@pytest.mark.parametrize("lacking", ["timm", "network"])
def test_a_plan_says_what_is_missing_unless_the_cells_are_finished(lacking, tmp_path, monkeypatch):
    weights, download = ("random", True) if lacking == "timm" else ("hub", False)
    allowed = study(weights, tmp_path)
    monkeypatch.setenv("HF_HOME", str(tmp_path / "empty"))
    if lacking == "timm":
        monkeypatch.setattr(product.importlib.util, "find_spec", lambda name: None)
    expected = r"timm: pip install 'fedgrid\[features\]'" if lacking == "timm" else "the published weights .* is false"
    prepare(allowed.cells[0].partition, allowed)
    with pytest.raises(UserError, match=f"the model 'timm' needs {expected}"):
        study(weights, tmp_path, download=download)
    file = allowed.cells[0].file
    file.parent.mkdir(parents=True)
    file.touch()
    assert study(weights, tmp_path, download=download).cells[0].done


def test_estimates_download_nothing(tmp_path, monkeypatch):
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    (cell,) = study("hub", tmp_path, model={"train": "head"}).cells
    assert calibration.sizes([Trial(cell.model, (16, 16, 1), CLASSES, 8)]) == [HEAD // 4]


@pytest.mark.parametrize("train", ["all", "head", "last 2", "lora"])
def test_methods_train_and_send_what_is_trained_alone(train, weights, tmp_path):
    planned = study(weights, tmp_path, ["fedavg", "fedper"], model={"train": train})
    tables = {cell.row.label: trained(cell, planned) for cell in planned.cells}
    sent = {name: table[table["metric"] == "bytes_up"]["value"].max() for name, table in tables.items()}
    assert sent["fedavg"] - sent["fedper"] == HEAD
    about = {cell.row.label: read_table(cell.file)[1] for cell in planned.cells}
    assert "timm" in about["fedavg"]["versions"]
    sizes = {label: head["sizes"] for label, head in about.items()}
    statistics = sent["fedper"] - 4 * sizes["fedper"]["extractor"]
    assert (sent["fedper"] == 0) == (train == "head") and (statistics > 0) == (train in ("all", "last 2"))
    losses = tables["fedavg"][tables["fedavg"]["metric"].str.startswith("loss")]["value"]
    assert len(losses) and losses.notna().all()


def test_a_method_that_trains_the_extractor_by_itself_refuses_a_frozen_one(tmp_path):
    planned = study("random", tmp_path, ["fedrep"], model={"train": "head"})
    with pytest.raises(UserError, match=r"nothing of its extractor is trained.* or set features"):
        trained(planned.cells[0], planned)
    planned = study("random", tmp_path, ["fedrep"], model={"train": "head", "features": 8})
    assert len(trained(planned.cells[0], planned))


def test_final_models_have_the_frozen_weights_again(weights, tmp_path, monkeypatch):
    mine = tmp_path / "mine.safetensors"
    mine.write_bytes(weights.read_bytes())
    training = {"rounds": 1, "dtype": "float64", "local_steps": 1}
    planned = study(mine, tmp_path, ["fedproto"], model={"train": "lora"}, artifacts=["models"], training=training)
    (cell,) = planned.cells
    table = trained(cell, planned)
    model = fedgrid.load_model(cell.file, client=0)
    scores = model(torch.randint(0, 256, (5, 1, 16, 16)))
    assert scores.shape == (5, CLASSES) and scores.isfinite().all() and len(table)
    with monkeypatch.context() as patch:  # as where the hub has other weights under the same name
        patch.setattr("fedgrid.models.common.partly_trained.PartlyTrained.digest", "other")
        with pytest.raises(UserError, match=r"what stays frozen in the model .* is not what it was in training"):
            fedgrid.load_model(cell.file, client=0)
    mine.write_bytes(b"")
    with pytest.raises(UserError, match=r"the model started from the weights in .* which holds other weights now"):
        fedgrid.load_model(cell.file, client=0)
