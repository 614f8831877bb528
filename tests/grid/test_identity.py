"""Fingerprints follow the code, the whole code that a cell can reach, and nothing but the code."""

import ast
import json
import subprocess
import sys
from pathlib import Path

import pytest
from studies import plan_of, prepared, study_of
from tiers import method_of

import fedgrid
from fedgrid.grid.study import catalog
from fedgrid.grid.study.canonical import canonical, digest
from fedgrid.grid.study.fingerprint import fingerprint, modules
from fedgrid.grid.study.ledger import ENGINE
from fedgrid.grid.study.sources import NOT_COUNTED, Sources
from fedgrid.loading import names

CODE = '''
"""Module."""
import os  # why


class A:
    """Class."""

    x: int = 1
    "What x is."

    def f(self, y):
        """Function."""
        return (self.x + y) * 2
'''


def changed(tmp_path, text, name="mine"):
    file = tmp_path / f"{name}.py"
    file.write_text(text)
    return fingerprint(f"fedgrid_outside_{name}", file)


@pytest.mark.parametrize(
    "old, new",
    [
        ('"""Module."""', '"""Another module."""'),
        ('    """Class."""\n', ""),
        ('        """Function."""\n', ""),
        ('"What x is."', '"What x really is."'),
        ("  # why", ""),
        ("(self.x + y) * 2", "(\n            self.x + y\n        ) * 2"),
        ("\n\n\nclass", "\nclass"),
    ],
)
def test_what_does_not_count(tmp_path, old, new):
    assert old in CODE
    assert changed(tmp_path, CODE.replace(old, new)) == changed(tmp_path, CODE)


FACT = """
from fedgrid.methods import Identity
from fedgrid.methods.fedavg import FedAvg


class Mine(FedAvg):
    work = "2E"
    identities = [Identity("fedavg", {"mu": 0.0})]
    score = "global"

    def passes(self):
        return 1
"""


@pytest.mark.parametrize(
    ("old", "new", "counts"),
    [
        ('"2E"', '"3E"', False),
        ('    work = "2E"\n', "", False),
        ('{"mu": 0.0}', '{"mu": 1.0}', False),
        ('    identities = [Identity("fedavg", {"mu": 0.0})]\n', "", False),
        ('"global"', '"trained"', True),
        ('"2E"', "str(2)", True),
        ("return 1", "return self.work", True),
    ],
)
def test_facts_of_a_method_do_not_count(tmp_path, old, new, counts):
    assert old in FACT
    assert (changed(tmp_path, FACT.replace(old, new)) != changed(tmp_path, FACT)) == counts


def test_facts_count_where_the_method_reads_them(tmp_path):
    reading = FACT.replace("return 1", "return self.work")
    assert changed(tmp_path, reading.replace('"2E"', '"3E"')) != changed(tmp_path, reading)


def test_a_description_follows_the_facts(tmp_path):
    for text in (FACT, FACT.replace('"2E"', '"3E"')):
        (tmp_path / "mine.py").write_text(text + "\n    source = family = shares = 'x'\n")
        facts = catalog.description("methods", str(tmp_path / "mine.py"))["facts"]
        assert facts["work"] == ("2E" if text is FACT else "3E")


@pytest.mark.parametrize("old, new", [("= 1", "= 1.0"), ("= 1", "= True"), ("* 2", "* 3"), ("f(", "g("), ("os", "re")])
def test_what_counts(tmp_path, old, new):
    assert changed(tmp_path, CODE.replace(old, new, 1)) != changed(tmp_path, CODE)


def test_a_module_beside_an_outside_file_counts(tmp_path):
    (tmp_path / "helper.py").write_text("def g(): return 1\n")
    before = changed(tmp_path, "from helper import g\n")
    (tmp_path / "helper.py").write_text("def g(): return 2 \n")
    assert changed(tmp_path, "from helper import g\n") != before


LOADED = """
import json, os, scipy.optimize, scipy.sparse.csgraph, sympy, sys, pyarrow.parquet, torch, torch._dynamo
from fedgrid.grid.plan.keys import modules_of_cell
from fedgrid.jobs import cell
from fedgrid.jobs.warm import enter_job
plan, *cells = sys.argv[1:]
names = dict(name.split("=") for name in cells)
for name in names:  # what is known of the code is kept
    modules_of_cell(f"fedgrid.methods.{name}", None, "fedgrid.models.mlp")
for name, key in names.items():
    child = os.fork()  # each cell in a process of its own, and the libraries imported once for all
    if not child:
        enter_job()
        code = cell.main([plan, key])
        with open(f"{name}.json", "w") as file:
            json.dump([module for module in sys.modules if module.startswith("fedgrid")], file)
        os._exit(code)
    assert os.waitpid(child, 0)[1] == 0, name
"""


@pytest.fixture(scope="module")
def loaded(tmp_path_factory, request):
    """By method, the modules of fedgrid that a process has imported once it has run a cell."""
    folder, selected = tmp_path_factory.mktemp("loaded"), request.session.items
    asking = {method_of(item) for item in selected if "loaded" in getattr(item, "fixturenames", ())}
    methods = [name for name in names("methods") if name in asking]
    few = [{"partition": "dirichlet", "clients": 3, "fraction": 0.2}]
    study = prepared(
        study_of(methods=methods, heterogeneity=few, seeds=[0], results=str(folder), training={"rounds": 1})
    )
    cells = [f"{cell.row.component.name}={cell.key}" for cell in study.cells]
    command = [sys.executable, "-c", LOADED, str(plan_of(study)), *cells]
    subprocess.run(command, cwd=folder, capture_output=True, check=True)
    return {name: set(json.loads((folder / f"{name}.json").read_text())) for name in methods}


@pytest.mark.representatives
def test_a_cell_loads_no_module_that_its_fingerprint_misses(method_name, loaded):
    if method_name.endswith(".py"):
        pytest.skip("a method outside the package")
    covered = Sources.of().closure([ENGINE, f"fedgrid.methods.{method_name}", "fedgrid.models.mlp"]).keys()
    assert f"fedgrid.methods.{method_name}" in loaded[method_name]
    others = ("fedgrid.cli", "fedgrid.grid", "fedgrid.jobs", "fedgrid.run", "fedgrid.command")
    others += tuple(NOT_COUNTED.keys() - {"fedgrid"})
    others += ("fedgrid.data.base", "fedgrid.data.digits", "fedgrid.data.sources")  # of the keys of data sets
    others += ("fedgrid.partition",)  # of the keys of partitions
    assert {m for m in loaded[method_name] - covered - {"fedgrid"} if not m.startswith(others)} == set()
    assert not {m for m in covered if m.startswith(("fedgrid.cli", "fedgrid.analysis", "fedgrid.grid", "fedgrid.jobs"))}


def announced(tmp_path):
    package = tmp_path / "theirs"
    (package / "methods").mkdir(parents=True)
    (package / "__init__.py").write_text("")
    (package / "common.py").write_text("A = 1\n")
    (package / "methods/__init__.py").write_text("K = 1\n")
    code = "import os\nfrom theirs.common import A\nfrom ..common import A as B\nfrom . import K\n"
    (package / "methods/mine.py").write_text(code)
    return package


@pytest.mark.parametrize("file", ["common.py", "methods/__init__.py", "methods/mine.py"])
def test_the_package_of_an_announced_method_counts(tmp_path, file):
    package = announced(tmp_path)
    given = ("theirs.methods.mine", package / "methods/mine.py")
    before, actual = fingerprint(*given), modules(*given)
    assert list(actual) == ["theirs", "theirs.common", "theirs.methods", "theirs.methods.mine"]
    (package / file).write_text((package / file).read_text() + "B = 22\n")
    assert fingerprint(*given) != before


def test_the_version_number_does_not_count(tmp_path):
    assert changed(tmp_path, '__version__ = "1"\nx = 1') == changed(tmp_path, '__version__ = "2.0"\nx = 1')


def test_canonical_json():
    assert canonical({"b": 1, "a": [1.5, None, "β"]}) == '{"a":[1.5,null,"β"],"b":1}'
    assert digest({"a": 1}) != digest({"a": 1.0})
    with pytest.raises(ValueError):
        canonical(float("nan"))


def test_planning_never_imports_torch(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    study = "{name: s, data: digits, heterogeneity: [{partition: dirichlet, clients: 4}], methods: [fedavg, fedcosr]}"
    (tmp_path / "s.yaml").write_text(study)
    code = (
        "import sys; from fedgrid.cli.main import main; main(['status', '--configfile', 's.yaml']);"
        "print([m for m in ('torch', 'snakemake', 'matplotlib') if m in sys.modules])"
    )
    for expected in ("['torch']", "[]"):  # the first time the methods are described, then their descriptions are kept
        run = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=True)
        assert run.stdout.splitlines()[-1] == expected


def test_the_workflow_stays_small(request):
    root = request.config.rootpath
    files = [root / "workflow/Snakefile", *(root / "workflow/rules").glob("*.smk")]
    assert sum(len(file.read_text().splitlines()) for file in files) <= 330


def test_no_file_is_long():
    files = Path(fedgrid.__file__).parent.rglob("*.py")
    assert not {file.name for file in files if len(file.read_text(encoding="utf-8").splitlines()) > 400}


def test_what_no_key_covers_does_no_arithmetic():
    """The rooms that no key covers, and the modules that counted code imports all the same.

    Two may import torch: `jobs.calibration` has the engine compute on made-up images, and measures the seconds;
    `jobs.models_file` writes tensors as they are, after the last round.
    """
    package = Path(fedgrid.__file__).parent
    rooms = [file for room in ("cli", "grid", "jobs", "run") for file in (package / room).rglob("*.py")]
    named = [package.parent.joinpath(*name.split(".")).with_suffix(".py") for name in NOT_COUNTED if name != "fedgrid"]
    for exception in ("calibration", "models_file"):
        rooms.remove(package / f"jobs/{exception}.py")
    for file in (*rooms, *named, package / "__init__.py", package / "command.py"):
        tree = ast.parse(file.read_text(encoding="utf-8"))
        froms = {node.module or "" for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
        names = {alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names}
        assert not {name for name in froms | names if name.split(".")[0] in ("torch", "numpy")}, file


def test_two_labels_of_one_data_set_share_its_files_and_cells(tmp_path):
    study = study_of(data=["digits", {"name": "digits", "label": "again"}], results=str(tmp_path))
    labels = [cell.partition.data.label for cell in study.cells]
    assert labels.count("digits") == labels.count("again") == 4
    assert len({cell.file for cell in study.cells}) == len(study.by_key) == 4
    assert len(study.datasets) == 1
