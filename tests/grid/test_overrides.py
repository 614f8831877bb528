"""Names of a method's own that hide a name of the base class are refused while planning, with their line."""

import pytest
from studies import study_of

from fedgrid.engine.federation.method import CLOSED
from fedgrid.errors import UserError
from fedgrid.grid.study.overrides import ENGINES_OWN, hidden_engine_names, unfit_overrides
from fedgrid.loading import load, names

HEAD = '''"""Mine."""
from fedgrid.components import hp
from fedgrid.methods.fedavg import FedAvg


class Helper:
    def used(self, alpha):
        return alpha


class Mine(FedAvg):
    source = "nobody"

'''


@pytest.fixture
def flaws(tmp_path):
    """What is said of a method whose class has that body."""

    def flaws_of(body):
        file = tmp_path / "mine.py"
        file.write_text(HEAD + body)
        return hidden_engine_names(file) or unfit_overrides(load("methods", str(file)))

    return flaws_of


def test_the_engines_own_names_are_the_closed_ones():
    assert set(ENGINES_OWN) == set(CLOSED)


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ("    def used(self, alpha):\n        return alpha\n", "'used' overrides Method.used"),
        (
            "    def adapted(self, own, shared):\n        return own\n",
            "'adapted(self, own, shared)' overrides Method.adapted(self, fed, s), which the engine calls",
        ),
        ("    def clusters(self):\n        return {}\n", "'clusters(self)' overrides Method.clusters(self, s)"),
        ("    predict = None\n", "'predict' is no function, but overrides Method.predict"),
        ("    work: float = hp(1.0)\n", "the hyperparameter 'work' hides Method.work, which states a fact"),
        ("    def work(self):\n        return 1\n", "the function 'work' hides Method.work"),
    ],
)
def test_a_name_that_hides_another(flaws, body, words):
    (flaw,) = flaws(body)
    assert "mine.py, line 14: " in flaw and words in flaw


def test_planning_refuses_it(working_folder):
    (working_folder / "mine.py").write_text(HEAD + "    def adapted(self, own):\n        return own\n")
    with pytest.raises(UserError, match=r"mine.py, line 14: 'adapted\(self, own\)' overrides Method.adapted"):
        study_of(methods={"mine": {"method": "mine.py"}})


@pytest.mark.parametrize(
    "body",
    [
        "    def adapted(self, fed, s):\n        return None\n",
        "    def received(self, fed, s, extra=None):\n        return None\n",
        "    def loss(self, theta, *rest):\n        return super().loss(theta, *rest)\n",
        "    def mixture(self, alpha):\n        return alpha\n",
        '    work = "2E"\n    files = ()\n',
    ],
)
def test_names_that_hide_nothing(flaws, body):
    assert flaws(body) == []


@pytest.mark.parametrize("name", names("methods"))
def test_the_methods_of_the_package_hide_nothing(name):
    assert unfit_overrides(load("methods", name)) == []
