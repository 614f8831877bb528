"""Models, partitions and data sets in files outside the package: what their keys cover, and what is refused."""

import os
import subprocess
import sys
from pathlib import Path

import plugins
import pytest
from studies import prepared
from tiers import every_third

from fedgrid.api.study_file import read_study
from fedgrid.engine.state.saving import Saving
from fedgrid.errors import UserError
from fedgrid.files import read_metadata
from fedgrid.grid.plan.instances import expected_of, info_of
from fedgrid.grid.study.catalog import description
from fedgrid.jobs import cell, dataset, partition
from fedgrid.run.pin import Pin


@pytest.fixture(autouse=True)
def separate_imports(monkeypatch):
    """What files import is not found by later tests."""
    monkeypatch.setattr("sys.path", sys.path[:])
    before = set(sys.modules)
    yield
    for name in {*sys.modules} - before:
        if getattr(sys.modules[name], "__file__", None) and "/plug" in str(sys.modules[name].__file__):
            del sys.modules[name]


@pytest.fixture
def plug(working_folder):
    return plugins.write(working_folder)


def edit(file, old, new):
    text = file.read_text()
    assert old in text
    file.write_text(text.replace(old, new, 1))


def planned():
    return read_study(Path("study.yaml"))


def keys():
    """Of the method in a file and of one of the package, and of what they are trained on."""
    mine, local = planned().cells
    return {
        "mine": mine.key,
        "local": local.key,
        "partition": mine.partition.key,
        "data": mine.partition.data.key,
    }


CELLS = {"mine", "local"}


@pytest.mark.parametrize(
    ("name", "old", "new", "changed"),
    every_third(
        [
            ("net.py", "nn.ReLU()", "nn.Tanh()", CELLS),
            ("helper.py", "0.5", "1.0", CELLS),
            ("kind.py", "+ shift", "- shift", {*CELLS, "partition"}),
            ("noise.py", '"noise", part', '"other noise", part', {*CELLS, "partition", "data"}),
            ("shift.json", "0", "1", {*CELLS, "partition"}),
            ("mine.py", "FedAvg by", "Plain FedAvg by", set()),
            ("net.py", '    """Two layers."""', '    """Two linear layers."""', set()),
            ("noise.py", 'title = "Noise"', 'title = "Grey noise"', set()),
        ],
        several=True,
    ),
)
def test_an_edit_changes_the_keys_of_what_depends_on_it(plug, name, old, new, changed):
    before = keys()
    edit(plug / name, old, new)
    after = keys()
    assert {key for key in before if before[key] != after[key]} == changed


def test_a_description_quotes_the_file_as_it_is_now(plug):
    net = plug / "net.py"
    for words in ("of the first layer", "inside"):
        net.write_text(net.read_text().replace("of the first layer", words))
        docs = {setting["name"]: setting["doc"] for setting in description("models", str(net))["parameters"]}
        assert docs["hidden"] == f"Width {words}."


def test_folders_and_labels_have_the_names_of_the_files(plug):
    mine, _ = planned().cells
    data = mine.partition.data
    assert (data.label, data.title, mine.partition.label) == ("noise", "Noise", "kind-clients4")
    assert mine.file.relative_to(mine.store).parts[:-1] == ("cells", "mine", "noise", "kind-clients4")
    assert mine.spec["model"]["name"] == "net"


def test_paths_count_from_the_study_and_the_place_does_not_matter(plug, tmp_path, monkeypatch):
    before = keys()
    (tmp_path / "elsewhere").mkdir()
    plug.rename(tmp_path / "elsewhere" / "plug")
    (tmp_path / "study.yaml").rename(tmp_path / "elsewhere" / "study.yaml")
    after = [c.key for c in read_study(Path("elsewhere/study.yaml")).cells]
    assert after == [before["mine"], before["local"]]


def test_a_run_keeps_the_code_of_all_kinds(plug):
    names = {path.name for path in Pin(planned()).sources if path.parts[0] == "outside"}
    assert names == {*plugins.FILES}


@pytest.mark.parametrize(
    ("name", "old", "new", "job", "problem"),
    [
        ("noise.py", '"noise", part', '"other", part', "data", "data 'noise': edited since planning"),
        ("kind.py", "+ shift", "- shift", "partition", "heterogeneity 'kind-clients4': edited since planning"),
        ("shift.json", "0", "1", "partition", "heterogeneity 'kind-clients4': edited since planning"),
        ("net.py", "nn.ReLU()", "nn.Tanh()", "cell", "the code has been edited since this cell was planned"),
        ("helper.py", "0.5", "1.0", "cell", "the code has been edited since this cell was planned"),
    ],
)
def test_a_job_refuses_an_edit_since_planning(plug, name, old, new, job, problem):
    study = planned()
    mine = study.cells[0]
    if job != "data":
        dataset.build(mine.partition.data, study)
    if job == "cell":
        partition.build(mine.partition)
    edit(plug / name, old, new)
    jobs = {
        "data": lambda: dataset.build(mine.partition.data, study),
        "partition": lambda: partition.build(mine.partition),
        "cell": lambda: cell.train(mine, mine.file, study.compute, Saving(mine.checkpoint, mine.key, every=1e9)),
    }
    with pytest.raises(UserError, match=problem):
        jobs[job]()
    target = {"data": mine.partition.data.files["train"], "partition": mine.partition.file, "cell": mine.file}[job]
    assert not target.exists()


KIND_OF = {"net.py": "models", "kind.py": "partition", "noise.py": "data"}


@pytest.mark.parametrize(
    "case",
    every_third([
        ("net.py", "class Net", "clas Net", "model .* cannot be read: invalid syntax .*net.py, line 12"),
        ("net.py", "import math", "import math, nothing_such", "model .* imported: ModuleNotFoundError"),
        ("net.py", "import math", "import math\n1 / 0", r"model .* cannot be imported: ZeroDivisionError.*\(line 4\)"),
        ("net.py", "import math", "import math\nexec('a = 1')", "model 'plug/net.py': .*net.py, line 4: exec; no key"),
        ("net.py", "import math", "import math\nopen('study.yaml')", "line 4: opens .*study.yaml"),
        ("net.py", "import math", "import math\nimport os\nos.system('true')", "line 5: starts another program"),
        ("net.py", "class Net(Model)", "class Net(nn.Module)", "model .*: expected one component class in the file"),
        ("net.py", "def extractor", "def extract", "model 'plug/net.py': Net: it has to define extractor"),
        ("net.py", "(self, shape)", "(self)", "net.py, line 18: 'extractor.self.' overrides Model.extractor"),
        ("net.py", "hidden: int", "smallest: int = hp(1)\n    hidden: int", "'smallest' hides Model.smallest"),
        ("net.py", "hp(8, low=1)", "hp(0, low=1)", "model .*: Net: the setting 'hidden' has a wrong default"),
        ("net.py", "from fedgrid.models.base import Model", "from fedgrid.methods.fedavg import FedAvg as Model",
         "model 'plug/net.py': its class is not a model; derive it from fedgrid.models.base.Model"),
        ("kind.py", "named = (", "named = ('nothing', ", "partition .*: `named` lists 'nothing', which is not"),
        ("kind.py", '("shift.json",)', "tuple(['shift.json'])", "kind.py, line 16: write the names of files"),
        ("kind.py", "def owners(self, pool, random)", "def owners(self)", "'owners.self.' overrides SampledPartition"),
        ("noise.py", '"test": 40', '"tests": 40', "data set 'plug/noise.py': its class states something wrong"),
        ("noise.py", "class Noise", "import socket\nsocket.socket().connect_ex(('127.0.0.1', 9))\nclass Noise",
         "data set 'plug/noise.py': .*line 11: uses the network"),
    ]),
    ids=lambda case: " ".join(case[1:3]),
)  # fmt: skip
def test_a_malformed_file_is_one_sentence(plug, case):
    name, old, new, problem = case
    edit(plug / name, old, new)
    with pytest.raises(UserError, match=problem) as refused:
        description(KIND_OF[name], f"plug/{name}")
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize(
    ("name", "old", "new", "problem"),
    every_third(
        [
            ("kind.py", "return f", "raise ValueError('bad')\n        return f", r"bad \(plug/kind.py, line 2"),
            (
                "kind.py",
                'return f"round robin, {self.clients} clients"',
                "return 3",
                "partition 'plug/kind.py': TypeError",
            ),
            ("noise.py", "(8, 8, 1)", "(8, 8)", "data set 'plug/noise.py': ValueError: not enough values"),
            ("noise.py", "(8, 8, 1)", "(8, 8, 1.0)", r"noise.py': shape = \(8, 8, 1.0\) has to be \(height, width"),
            ("noise.py", '("a", "b")', "(1, 2)", r"data set 'plug/noise.py': classes = \(1, 2\) has to be the names"),
        ],
        several=True,
    ),
)
def test_a_file_that_states_something_impossible_is_one_sentence(plug, name, old, new, problem):
    edit(plug / name, old, new)
    with pytest.raises(UserError, match=problem) as refused:
        planned()
    assert str(refused.value).startswith("study.yaml:") and "\n" not in str(refused.value)


@pytest.mark.parametrize(
    ("old", "new", "problem"),
    [
        ("plug/net.py", "plug/none.py", "study.yaml:6: model.name: model 'plug/none.py': no such file"),
        ("plug/net.py", "plug", "unknown model 'plug'"),
        ("plug/kind.py", "plug/none.py", "partition 'plug/none.py': no such file"),
        ("plug/noise.py", "plug/none.py", "study.yaml:3: data.0: data set 'plug/none.py': no such file"),
        ("hidden: 4", "width: 4", "study.yaml:6: model: unknown setting 'width'"),
        ("clients: 4", "beta: 4", "study.yaml:4: heterogeneity.0: unknown setting 'beta'"),
        ("clients: 4", "clients: 4000", "partition.clients: 4000 clients cannot share 200 images"),
        ("plug/kind.py", "plug/noise.py", "partition 'plug/noise.py': its class is not a partition"),
    ],
)
def test_a_study_that_names_a_file_wrongly(plug, old, new, problem):
    study = Path("study.yaml")
    study.write_text(plugins.STUDY.replace(old, new))
    with pytest.raises(UserError, match=problem):
        planned()


DEALS = "\n    def split(self, pool, seed):\n        table = super().split(pool, seed)\n        return {}\n"
SAYS = "\n    def about(self, pool, seed):\n        return super().about(pool, seed) | {'clients': 2}\n"


@pytest.mark.parametrize(
    ("old", "new", "problem"),
    every_third(
        [
            ("        shift = ", "        open('study.yaml')\n        shift = ", "partition .*opens .*study.yaml"),
            ("        shift = ", "        1 / 0\n        shift = ", r"ZeroDivisionError: .* \(plug/kind.py, line 19\)"),
            (
                "\n    def owners",
                DEALS.format("None") + "\n    def owners",
                "`split` has to return a table of the columns",
            ),
            (
                "\n    def owners",
                DEALS.format("table.take([0, 0])") + "\n    def owners",
                "image 16 is dealt out twice",
            ),
            ("\n    def owners", SAYS + "\n    def owners", "there are 2 clients, but images of client 3"),
        ],
        several=True,
    ),
)
def test_what_a_partition_does_in_its_job_is_checked(plug, old, new, problem):
    study = planned()
    data = study.cells[0].partition.data
    if not data.built:
        dataset.build(data, study)
    edit(plug / "kind.py", old, new)
    planned_partition = planned().cells[0].partition
    with pytest.raises(UserError, match=problem):
        partition.build(planned_partition)
    assert not planned_partition.file.exists()


def test_a_data_set_may_read_files_in_its_job_but_run_no_other_code(plug):
    reads = "        open('study.yaml').close()\n        return RawDataset("
    edit(plug / "noise.py", "        return RawDataset(", reads)
    assert prepared(planned()).cells[0].partition.data.built
    runs = "        import builtins\n        getattr(builtins, 'ex' + 'ec')('a = 1')\n        return RawDataset("
    (plug / "noise.py").write_text(plugins.NOISE.replace("        return RawDataset(", runs))
    with pytest.raises(UserError, match=r"data set 'plug/noise.py': .*runs code from a text"):
        prepared(planned())


def test_files_with_earlier_names_work_as_they_did(plug):
    (plug / "noise.py").write_text(plugins.NOISE.replace("image_counts", "images"))  # in all places
    (data,) = planned().datasets.values()
    assert info_of(data.component, None).images == {"train": 160, "test": 40}
    check = "    def plan(self, info, seeds):\n        super().plan(info, seeds)\n        assert not seeds\n\n"
    edit(plug / "kind.py", "    def owners", f"{check}    def owners")
    with pytest.raises(UserError, match=r"partition 'plug/kind.py': AssertionError"):
        planned()


def test_a_kind_of_partition_states_facts_for_estimates_which_count_in_no_key(plug):
    (before,) = planned().partitions.values()
    edit(plug / "kind.py", "    files", "    similar_sizes = True\n    files")
    (after,) = planned().partitions.values()
    expected = expected_of(after.component, info_of(after.data.component, None), 0)
    assert before.key == after.key and expected.similar_sizes


def test_a_model_may_not_read_values_of_tensors(plug):
    layer = "class Layer(nn.Module):\n    def forward(self, x):\n        return x * float(x.mean())\n\n\nclass Net"
    edit(plug / "net.py", "class Net", layer)
    with pytest.raises(UserError, match=r"model .*line 14: `float\(x.mean\(\)\)` in 'forward' reads the value"):
        planned()


def test_different_helpers_of_one_name_are_refused_in_one_process(plug, tmp_path):
    (tmp_path / "other").mkdir()
    (tmp_path / "other/helper.py").write_text("HALF = 0.25\n")
    (tmp_path / "other/mine.py").write_text("from helper import HALF\n" + plugins.MINE)
    Path("study.yaml").write_text(plugins.STUDY.replace("plug/mine.py", "other/mine.py"))
    with pytest.raises(UserError, match="have different helpers called 'helper' beside them; rename one"):
        planned()


def test_data_sets_with_helpers_of_one_name_each_have_their_own(plug, tmp_path):
    for folder, count in (("a", 100), ("b", 200)):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "size.py").write_text(f"COUNT = {count}\n")
        text = plugins.NOISE.replace("import numpy", "from size import COUNT\nimport numpy")
        (tmp_path / folder / f"{folder}.py").write_text(text.replace('"train": 160', '"train": COUNT'))
    Path("study.yaml").write_text(plugins.STUDY.replace("[plug/noise.py]", "[a/a.py, b/b.py]"))
    study = planned()
    for data in study.datasets.values():
        dataset.build(data, study)
    counts = {data.name: read_metadata(data.images_file)["images"]["train"] for data in study.datasets.values()}
    assert counts == {"a": 100, "b": 200}


GROUPS = "[fedgrid.{}]\ntheirs = theirs.{}\n"


@pytest.mark.full
def test_a_package_announces_components_of_all_kinds(tmp_path):
    site, groups = tmp_path / "site", {"models": "net", "partition": "kind", "data": "noise", "methods": "mine"}
    (site / "theirs").mkdir(parents=True)
    (site / "theirs-0.1.dist-info").mkdir()
    (site / "theirs-0.1.dist-info/METADATA").write_text("Metadata-Version: 2.1\nName: theirs\nVersion: 0.1\n")
    announced = "".join(GROUPS.format(group, module) for group, module in groups.items())
    (site / "theirs-0.1.dist-info/entry_points.txt").write_text(announced)
    (site / "theirs/__init__.py").write_text("")
    for name, text in plugins.FILES.items():
        (site / "theirs" / name).write_text(text.replace("from helper", "from theirs.helper"))
    study = plugins.STUDY
    for name in ("net", "kind", "noise", "mine"):
        study = study.replace(f"plug/{name}.py", "theirs")
    (tmp_path / "study.yaml").write_text(study)
    code = (
        f"import sys; sys.path.insert(0, {str(site)!r})\nfrom pathlib import Path\n"
        "from fedgrid.api.study_file import read_study\n"
        "print(*(key for c in read_study(Path('study.yaml')).cells for key in c.keys))"
    )

    def keys_of_cells():
        environment = os.environ | {"PYTHONPATH": os.pathsep.join([str(site), *sys.path])}
        run = subprocess.run(
            [sys.executable, "-c", code], cwd=tmp_path, env=environment, capture_output=True, text=True
        )
        assert run.returncode == 0, run.stderr
        return run.stdout.split()

    before = keys_of_cells()
    assert len(before) == 6
    (site / "theirs/helper.py").write_text("HALF = 1.0\n")
    after = keys_of_cells()
    changed = [index for index, (old, new) in enumerate(zip(before, after, strict=True)) if old != new]
    assert changed == [0, 3]  # the cells, whose model it is; not partition and data
