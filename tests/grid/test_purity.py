"""What a loss may not do is read from its source: values of tensors that one client alone would have."""

import pytest
from studies import study_of

from fedgrid.errors import UserError
from fedgrid.grid.study.purity import impure
from fedgrid.loading import locate, names

HEAD = """import torch
from fedgrid.methods import Method
from fedgrid.methods.fedavg import FedAvg

CONSTANT = 3


def distance(a, b):
    return (a - b).square().sum()


class Mine(FedAvg):
    def loss(self, theta, batch, at):
        {line}
        return super().loss(theta, batch, at)

    def helper(self, value, size):
        return value * float(size)

    def reading(self, value):
        return value.item()

    def step(self, both, batch, at):
        return both, both.local.item()

    def handing(self, theta, *rest):
        return rest[0].item()

    def round(self, fed, s):
        n = float(s.server.theta["head.bias"].sum().item())
        {inside}
        return super().round(fed, s)
"""


@pytest.fixture
def flaws(working_folder):
    def impure_places(line="pass", inside="pass"):
        file = working_folder / "mine.py"
        file.write_text(HEAD.format(line=line, inside=inside))
        return [flaw.partition(" reads the value")[0].removeprefix(f"{file}, ") for flaw in impure(file)]

    return impure_places


@pytest.mark.parametrize(
    ("line", "flaw"),
    [
        ("v = at.model(theta, batch.x).sum().item()", "line 14: `at.model(theta, batch.x).sum().item()` in 'loss'"),
        ("z = at.model(theta, batch.x); n = z.sum(); v = float(n)", "line 14: `float(n)` in 'loss'"),
        ("v = batch.y.tolist()", "line 14: `batch.y.tolist()` in 'loss'"),
        ("v = theta['head.bias'].detach().numpy()", "line 14: `theta['head.bias'].detach().numpy()` in 'loss'"),
        ("v = bool(at.client.known)", "line 14: `bool(at.client.known)` in 'loss'"),
        ("v = [int(y) for y in batch.y]", "line 14: `int(y)` in 'loss'"),
        ("v = self.handing(theta, batch)", "line 27: `rest[0].item()` in 'handing'"),
        ("v = self.reading(batch.y)", "line 21: `value.item()` in 'reading'"),
        ("v = torch.func.grad(self.reading)(theta)", "line 21: `value.item()` in 'reading'"),
        ("v = float(distance(batch.x, batch.x))", "line 14: `float(distance(batch.x, batch.x))` in 'loss'"),
    ],
)
def test_a_value_that_is_read(flaws, line, flaw):
    assert flaws(line) == [flaw]


@pytest.mark.parametrize(
    "line",
    [
        "v = float(len(batch.y)) * int(batch.x.shape[0]) * float(batch.y.numel())",
        "v = float(self.mu) * int(CONSTANT)",
        "n = batch.x.shape[0]; v = float(n)",
        "v = self.helper(batch.y, 3)",
        "v = at.server.weight.item()",
        "v = bool(batch.counted is None)",
        "v = self.helper(batch.y, len(batch.y))",
    ],
)
def test_what_is_no_value_of_a_client(flaws, line):
    assert flaws(line) == []


def test_the_server_may_read_its_own_tensors_and_steps_are_found_where_they_are_given(flaws):
    assert flaws() == []
    assert flaws(inside="fed.iterate(s, self.step)") == ["line 24: `both.local.item()` in 'step'"]
    assert flaws(inside="fed.measure(s, lambda theta, batch, at: {'a': batch.y.sum().item()})") == [
        "line 31: `batch.y.sum().item()` in a lambda"
    ]


@pytest.mark.parametrize("name", names("methods"))
def test_the_methods_of_the_package_are_pure(name):
    from fedgrid.suite.method_source import file_of

    assert locate("methods", name)[2] is None
    assert impure(file_of(name)) == []


def test_planning_refuses_it(working_folder):
    (working_folder / "mine.py").write_text(HEAD.format(line="v = batch.y.sum().item()", inside="pass"))
    with pytest.raises(UserError, match=r"mine.py, line 14: `batch.y.sum\(\).item\(\)` in 'loss' reads the value"):
        study_of(methods={"mine": {"method": "mine.py"}})
