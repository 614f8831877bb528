"""What a session has imported, edited or replaced makes no difference: its cells are those of fresh processes."""

import inspect
import json
import os
import random
import shutil
import subprocess
import sys
import threading
from pathlib import Path

import pytest

import fedgrid
from fedgrid.jobs import warm

METHOD = '''"""{name}: FedAvg with a scaled loss. Nobody, Nowhere 2026."""

from pathlib import Path

from rates import FACTOR

from fedgrid.components import hp
from fedgrid.methods.fedavg import FedAvg


class {name}(FedAvg):
    files = ("prior.txt",)
    strength: float = hp({strength})
    "Factor of the loss."

    def loss(self, theta, batch, at):
        prior = float(Path(__file__).with_name("prior.txt").read_text())
        return FACTOR * prior * self.strength * super().loss(theta, batch, at)
'''
NETWORK = '''"""Two layers."""

import math

from torch import nn
from widths import WIDTH

from fedgrid.models.base import Model


class Net(Model):
    def extractor(self, shape):
        layers = nn.Linear(math.prod(shape), WIDTH), nn.ReLU(), nn.Linear(WIDTH, self.features)
        return nn.Sequential(nn.Flatten(), *layers)
'''
SETTING = {
    "heterogeneity": {"partition": "dirichlet", "clients": 2, "fraction": 0.1},
    "training": {"rounds": 1, "batch_size": 50},
}
CALL = "import fedgrid, json, sys; call = json.loads(sys.argv[1]); print(repr(numbers(fedgrid.train(**call))))"


def numbers(cell):
    return cell.metadata["key"], cell.values["value"].tolist()


class Project:
    """Files of two methods and a model, in the working folder, each with helpers of its own."""

    def __init__(self, chance: random.Random):
        self.chance = chance
        self.strengths = {"one": 1.0, "two": 2.0}
        for name in self.strengths:
            Path(name).mkdir()
            self.write(name)
            Path(name, "rates.py").write_text(f"FACTOR = {chance.random()}\n")
            Path(name, "prior.txt").write_text("1.0")
        Path("one/net.py").write_text(NETWORK)
        Path("one/widths.py").write_text("WIDTH = 4\n")

    def write(self, name):
        title = {"one": "One", "two": "Two"}[name]
        Path(name, f"{name}.py").write_text(METHOD.format(name=title, strength=self.strengths[name]))

    def edit_helper(self):
        Path(self.any(), "rates.py").write_text(f"FACTOR = {self.chance.random()}\n")

    def edit_method(self):
        name = self.any()
        self.strengths[name] = self.chance.random()
        self.write(name)

    def edit_model(self):
        Path("one/widths.py").write_text(f"WIDTH = {self.chance.choice((3, 4, 5, 6))}\n")

    def edit_table(self):
        Path(self.any(), "prior.txt").write_text(str(self.chance.random()))

    def move_helper(self):
        """The helper becomes a package of the same name, or a file again."""
        folder = Path(self.any())
        file, package = folder / "rates.py", folder / "rates" / "__init__.py"
        if file.is_file():
            package.parent.mkdir()
            file.rename(package)
        else:
            package.rename(file)
            shutil.rmtree(package.parent)

    def import_helper(self):
        """The session imports a helper by hand, and replaces what is in it."""
        sys.path.insert(0, str(Path(self.any()).resolve()))
        sys.modules.pop("rates", None)
        __import__("rates").FACTOR = 1e3

    def replace_loss(self):
        """The session replaces a function of the package."""
        from fedgrid.methods.fedavg import FedAvg

        FedAvg.loss = lambda self, theta, batch, at: 0.0 * batch.x.sum()

    def any(self):
        return self.chance.choice([*self.strengths])

    def calls(self):
        """One or two cells of methods and models."""
        methods = ["one/one.py", "two/two.py", "fedavg"]
        models = ["one/net.py", {"name": "mlp", "hidden": 4, "features": 4}]
        return [
            SETTING | {"method": self.chance.choice(methods), "model": self.chance.choice(models)}
            for _ in range(self.chance.choice((1, 1, 2)))
        ]


ACTIONS = ("edit_helper", "edit_method", "edit_model", "edit_table", "move_helper", "import_helper", "replace_loss")


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """The working folder; what a session does to Python's path, its modules and the package is taken back."""
    from fedgrid.methods.fedavg import FedAvg

    (tmp_path / "project").mkdir()
    monkeypatch.chdir(tmp_path / "project")
    monkeypatch.setattr(sys, "path", sys.path[:])
    monkeypatch.setattr(FedAvg, "loss", FedAvg.loss)
    yield tmp_path
    sys.modules.pop("rates", None)


def trained(calls):
    """The numbers of cells that threads of this session train at once, in the order of the calls."""
    results = [None] * len(calls)

    def work(number):
        results[number] = numbers(fedgrid.train(**calls[number]))

    threads = [threading.Thread(target=work, args=(number,)) for number in range(len(calls))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return results


def trained_afresh(call, project, folder):
    """The numbers of a cell in a copy of the project without results, by a process that has just been started."""
    copy = folder / "afresh"
    shutil.rmtree(copy, ignore_errors=True)
    shutil.copytree(project, copy, ignore=shutil.ignore_patterns("results", "__pycache__"))
    command = [sys.executable, "-P", "-c", f"{inspect.getsource(numbers)}\n{CALL}", json.dumps(call)]
    done = subprocess.run(
        command, cwd=copy, env=os.environ | {warm.VARIABLE: ""}, capture_output=True, text=True, check=True
    )
    return eval(done.stdout)


def check(actions, chance, folder):
    project = Project(chance)
    for step in [(), *actions]:
        for action in step:
            getattr(project, action)()
        calls = project.calls()
        for call, numbers_here in zip(calls, trained(calls), strict=True):
            assert numbers_here == trained_afresh(call, Path.cwd(), folder), (step, call)


def test_a_session_in_which_everything_changes(folder):
    check([("edit_helper", "import_helper", "replace_loss", "edit_table")], random.Random(0), folder)


@pytest.mark.full
@pytest.mark.parametrize("seed", range(50))
def test_sessions(seed, folder):
    chance = random.Random(seed)
    check([chance.choices(ACTIONS, k=number) for number in (1, 2)], chance, folder)
