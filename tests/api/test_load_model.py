"""Final models from a cell's file: what they predict, and that they need nothing but torch."""

import subprocess
import sys
import warnings
from dataclasses import replace

import numpy as np
import pytest
import torch
import two_modalities
from changed_models import write_changed
from tiers import every_third
from trajectories import keep_two_models_together

import fedgrid
from fedgrid.engine import artifacts
from fedgrid.engine.kept_models import kept_models
from fedgrid.engine.local.loop import Loop
from fedgrid.engine.local.stacked import Stacked
from fedgrid.engine.rounds import federate
from fedgrid.errors import UserError
from fedgrid.grid.plan.keys import modules_of_cell
from fedgrid.jobs import models_file
from fedgrid.loading import load, locate, names
from fedgrid.suite import simulations

DIGITS = {"name": "mlp", "settings": {"hidden": 16, "features": 8}}
PICTURES_AND_TEXTS = {"name": "image_text", "settings": two_modalities.SMALL}


class Kept:
    """A cell in memory: the file of its final models, and the predictions that were recorded of them."""

    def __init__(self, folder, simulation, name, model=DIGITS, **settings):
        self.path, self.simulation = folder / "cell.models.safetensors", simulation
        method = load("methods", name)(**settings)
        self.outcome = federate(method, simulation)
        state = method, simulation, self.outcome.progress, self.outcome.last
        spec = {"method": {"name": name, "settings": settings}, "model": model}
        models_file.write(self.path, kept_models(*state), header(simulation, spec, method.score), method.carries)
        table = artifacts.tables(["predictions"], *state)["predictions"].read_all().to_pandas()
        self.predictions = table.groupby([table["point"].astype(str), "client"])

    def load(self, client, point):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return fedgrid.load_model(self.path, client, point)

    def inputs(self, index):
        """What a module takes: stored pixels, or the first caption of each text."""
        data, index = self.simulation.data, torch.from_numpy(np.array(index))
        texts = index >= len(data.images)
        return data.tokens[index - len(data.images)][:, 0] if texts.any() else data.images[index]

    def check(self):
        """Every model predicts what was recorded of it; their number."""
        for (point, client), table in self.predictions:
            scores = self.load(client, point)(self.inputs(table["image"]))
            probability, predicted = scores.double().softmax(dim=1).max(dim=1)
            assert predicted.tolist() == table["predicted"].tolist(), (point, client)
            np.testing.assert_allclose(probability.detach(), table["probability"], atol=1e-5)
        return len(self.predictions)


def header(simulation, spec, score):
    (_, module, file), data = locate("methods", spec["method"]["name"]), simulation.data
    texts = {"captions": [2, two_modalities.WORDS], "vocabulary": ["word"] * (data.vocabulary - 2)}
    constants = {"mean": data.centre / data.white, "std": data.spread / data.white}
    return {
        "spec": spec,
        "modules": modules_of_cell(module, file and str(file), f"fedgrid.models.{spec['model']['name']}"),
        "reference": spec["method"]["name"],
        "score": score,
        "images": {name: t.flatten().tolist() for name, t in constants.items()}
        | {"shape": [*data.images.shape[2:], data.images.shape[1]], "scale": data.white},
        "classes": [f"class {number}" for number in range(data.classes)],
        "texts": texts if data.modalities else None,
        "dtype": simulation.training.dtype,
    }


@pytest.mark.representatives
@pytest.mark.parametrize("executor", [Loop, Stacked])
@pytest.mark.parametrize("name", names("methods"))
def test_models_predict_what_was_recorded(tmp_path, name, executor):
    kept = Kept(tmp_path, simulations.ragged(participation=0.6, rounds=2, executor=executor()), name)
    assert kept.check() >= 5


READS_THE_STATE = """
import torch
from fedgrid.methods import State
from fedgrid.methods.fedavg import FedAvg

class Shifted(FedAvg):
    source = "a test"
    score = "received"
    carries = "class counts"

    def setup(self, fed):
        server = {"sums": {"seen": fed.counts.sum(dim=0).float(), "unread": torch.ones(3)}, "round": torch.zeros(1)}
        return super().setup(fed).update(server=server, clients={"own": fed.counts.float(), "unread": fed.counts})

    def round(self, fed, s):
        return super().round(fed, s).update(server={"round": s.server.round + 1})

    def received(self, fed, s):
        return fed.replicate(s.server.theta)

    def predict(self, theta, x, at):
        shift = at.client.own / 10 + at.server["sums"]["seen"] / 100
        return at.model(theta, x) + shift * at.server.round
"""


def test_what_a_prediction_reads_of_the_state_is_kept(tmp_path):
    file = tmp_path / "shifted.py"
    file.write_text(READS_THE_STATE)
    kept = Kept(tmp_path, simulations.ragged(participation=0.6, rounds=2), str(file))
    assert kept.check() == 5 + 5 + 3  # global, received, trained under the state before the last round
    header = models_file.read(kept.path).header
    paths = {tuple(tensor["path"]) for tensor in header["tensors"] if tensor["path"][0] != "theta"}
    assert paths == {("server", "sums", "seen"), ("server", "round"), ("client", "own")}
    assert header["contains"] == "class counts"


@pytest.mark.parametrize("name", every_third(["fedavg", "fedproto", "knn_per", "fediot"]))
def test_models_of_two_modalities(tmp_path, name):
    kept = Kept(tmp_path, two_modalities.simulation(), name, PICTURES_AND_TEXTS)
    assert kept.check() >= 4
    extractor = kept.load(0, "received")
    assert not any("textual" in key for key in extractor.state_dict())


SETTINGS = {
    "batch norm": ("mlp", {"hidden": 16, "features": 8, "norm": "batch"}, {}),
    "convolutions with batch norm": ("convnet", {"channels": 4, "features": 8, "norm": "batch"}, {}),
    "convolutions with group norm": ("convnet", {"channels": 4, "features": 8, "norm": "group"}, {}),
    "a projection": ("mlp", {"hidden": None, "features": 8, "projection": 6}, {}),
    "float64": ("mlp", {"hidden": 16, "features": 8}, {"dtype": "float64"}),
    "bfloat16": ("mlp", {"hidden": 16, "features": 8}, {"dtype": "bfloat16-mixed"}),
}


@pytest.mark.parametrize("method", ["fedavg", pytest.param("knn_per", marks=pytest.mark.full)])
@pytest.mark.parametrize("case", every_third([*SETTINGS]))
def test_other_networks(tmp_path, case, method):
    name, settings, training = SETTINGS[case]
    network = load("models", name)(**settings).network((8, 8, 1), 10)
    network = network.in_bfloat16() if case == "bfloat16" else network
    simulation = replace(simulations.ragged(3, rounds=2, **training), model=network)
    kept = Kept(tmp_path, simulation, method, {"name": name, "settings": settings})
    assert kept.check() >= 9
    if case != "bfloat16":
        module = kept.load(1, "received")
        assert all(type(layer).__module__.startswith("torch.") for layer in module.extractor.modules())


@pytest.mark.parametrize("norm", ["batch", "none"])
def test_ordinary_layers_give_the_same_bits(tmp_path, norm):
    settings = {"channels": 4, "features": 8, "norm": norm}
    network = load("models", "convnet")(**settings).network((8, 8, 1), 10)
    simulation = replace(simulations.ragged(3, rounds=2), model=network)
    kept = Kept(tmp_path, simulation, "ditto", {"name": "convnet", "settings": settings})
    theta = {name: t[1] for name, t in kept.outcome.progress.population.everyone().clients.personal.items()}
    module, x = kept.load(1, "received"), simulation.data.batch(simulation.data.test[1]).x
    assert torch.equal(module[1:](x), network(theta, x))
    torch.testing.assert_close(module.normalisation(simulation.data.images[simulation.data.test[1]]), x)


def test_pixels_of_any_type_are_normalised(tmp_path):
    kept = Kept(tmp_path, simulations.ragged(3, rounds=1), "fedavg")
    module, pixels = kept.load(None, "global"), kept.inputs([1, 2, 3])
    assert pixels.dtype == torch.uint8
    assert torch.equal(module(pixels), module(pixels.float())) and not module.training
    assert module.classes == [f"class {number}" for number in range(10)]


ALONE = """
import sys, torch
class Blocked:
    def find_spec(self, name, *_):
        if name.partition(".")[0] == "fedgrid":
            raise ImportError("fedgrid is not here")
sys.meta_path.insert(0, Blocked())
images = torch.load("images.pt", weights_only=True)
module = torch.load("module.pt", weights_only=False)
program = torch.export.load("program.pt2").module()
torch.save([module(images), module(images[:1]), program(images)], "scores.pt")
"""


@pytest.mark.parametrize("name", every_third(["knn_per", "fedavg", "fedproto"]))
def test_a_saved_module_runs_without_fedgrid(tmp_path, name):
    kept = Kept(tmp_path, simulations.ragged(3, rounds=2), name)
    point = "adapted" if name == "knn_per" else "received"
    module, images = kept.load(1, point), kept.inputs(range(40))
    torch.save(images, tmp_path / "images.pt")
    torch.save(module, tmp_path / "module.pt")
    program = torch.export.export(module, (images,), dynamic_shapes=({0: torch.export.Dim.DYNAMIC},))
    torch.export.save(program, tmp_path / "program.pt2")
    subprocess.run([sys.executable, "-c", ALONE], cwd=tmp_path, check=True)
    actual = torch.load(tmp_path / "scores.pt")
    expected = module(images)
    for scores, ours in zip(actual, [expected, expected[:1], expected], strict=True):
        torch.testing.assert_close(scores, ours)


def test_each_tensor_is_stored_once(tmp_path, monkeypatch):
    simulation = simulations.ragged(rounds=2)
    shared = Kept(tmp_path, simulation, "fedper")
    keep_two_models_together(monkeypatch, simulation)
    (tmp_path / "parts").mkdir()
    parts = Kept(tmp_path / "parts", simulation, "fedper")
    stored = [models_file.read(kept.path).header["tensors"] for kept in (shared, parts)]
    assert sorted(t["digest"] for t in stored[0]) == sorted(t["digest"] for t in stored[1])
    paths = [tensor["path"][1] for tensor in stored[0]]
    extractor = [name for name in simulation.initial if name.startswith("extractor.")]
    assert all(paths.count(name) == 6 for name in extractor)  # one that all received, and five that were trained
    assert paths.count("head.weight") == 5


def test_stores_of_different_size_in_different_parts(tmp_path, monkeypatch):
    simulation = simulations.ragged(rounds=1)
    keep_two_models_together(monkeypatch, simulation)
    kept = Kept(tmp_path, simulation, "knn_per")
    header = models_file.read(kept.path).header
    (adapted,) = (group for group in header["models"] if group["point"] == "adapted")
    memories = {
        dict(models_file.read(kept.path).row(header["rows"][row]))["theta", "memory"].shape[0]
        for row in adapted["rows"]
    }
    assert len(memories) == 3 and kept.check()


def test_what_a_model_carries_is_said(tmp_path):
    kept = Kept(tmp_path, simulations.ragged(3, rounds=1), "knn_per")
    assert models_file.read(kept.path).header["contains"] == "features and labels of training images"
    with pytest.warns(UserWarning, match="this model holds features and labels of training images: whoever"):
        fedgrid.load_model(kept.path, 0, "adapted")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        fedgrid.load_model(kept.path, 0, "global")
    (tmp_path / "plain").mkdir()
    plain = Kept(tmp_path / "plain", simulations.ragged(3, rounds=1), "fedproto", readout="head")
    assert models_file.read(plain.path).header["contains"] == ""


@pytest.mark.parametrize(
    ("module", "point", "warns"),
    [
        ("fedgrid.methods.knn_per", "adapted", True),
        ("fedgrid.methods.knn_per", "global", False),
        ("fedgrid.models.mlp", "global", True),
        ("fedgrid.engine.rounds", "adapted", False),
    ],
)
def test_edited_code_that_a_model_predicts_by_is_said(tmp_path, module, point, warns):
    kept = Kept(tmp_path, simulations.ragged(3, rounds=1), "knn_per")
    modules = models_file.read(kept.path).header["modules"]
    assert module in modules
    write_changed(kept.path, kept.path, {"modules": modules | {module: "0" * 16}, "contains": ""})
    with warnings.catch_warnings(record=True) as recorded:
        warnings.simplefilter("always")
        fedgrid.load_model(kept.path, 0, point)
    sentences = [str(warning.message) for warning in recorded if "differs from" in str(warning.message)]
    sentence = f"{module} differs from the code that trained this cell; the model may predict otherwise"
    assert sentences == [sentence] * warns


def test_a_prediction_that_torch_cannot_export_is_refused(tmp_path, monkeypatch):
    kept = Kept(tmp_path, simulations.ragged(3, rounds=1), "fedrod")
    rod = load("methods", "fedrod")
    monkeypatch.setattr(rod, "predict", lambda self, theta, x, at: theta["head.weight"][: int(x.sum()) % 3])
    with pytest.raises(UserError, match=r"torch\.export cannot export how this model predicts"):
        kept.load(0, "received")


def test_a_program_takes_any_number_of_images(tmp_path):
    kept = Kept(tmp_path, simulations.ragged(3, rounds=1), "knn_per")
    module, images = kept.load(0, "adapted"), kept.inputs(range(200))  # of a client with 7 neighbours
    alone = torch.cat([module(image.unsqueeze(0)) for image in images])
    torch.testing.assert_close(module(images), alone, atol=1e-4, rtol=1e-4)


def test_models_that_are_not_there(tmp_path):
    kept = Kept(tmp_path, simulations.ragged(participation=0.4, rounds=1), "ditto")
    absent = next(client for client in range(5) if ("trained", client) not in kept.predictions.groups)

    def sentence(client, point):
        with pytest.raises(UserError) as error:
            fedgrid.load_model(kept.path, client, point)
        return str(error.value).removeprefix(f"{kept.path}: ")

    assert sentence(0, "adapted") == "no models at the point 'adapted'; there are global, received, trained"
    assert sentence(5, "received") == "no client 5 at the point 'received'; there are 0 to 4"
    assert sentence(None, "received") == "clients have different received models; name one of the clients 0 to 4"
    assert sentence(absent, "trained").startswith(
        f"client {absent} did not take part in the last round and has no trained model; clients "
    )
    with pytest.raises(UserError, match=r"cell\.parquet does not exist"):
        fedgrid.load_model(tmp_path / "other" / "cell.parquet")


def test_a_cell_that_diverged_keeps_its_last_good_models(tmp_path):
    kept = Kept(tmp_path, simulations.ragged(rounds=5, lr=1e4), "fedavg_ft")
    assert (
        kept.outcome.status == "diverged" and not np.isnan(kept.load(None, "global").head.weight.detach().numpy()).any()
    )
