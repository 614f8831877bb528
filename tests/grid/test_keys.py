"""What a key covers: one line of code is edited in every module of the package, one at a time."""

import shutil
from pathlib import Path

import pytest
from studies import study_of

import fedgrid
from fedgrid.grid.study.sources import NOT_COUNTED, forget_files

STUDY = """
name: keys
data: [digits, {name: digits, label: frozen, features: {backbone: random}}]
heterogeneity: [{partition: dirichlet, clients: 4}]
methods: [fedavg, fedcosr, fedsac]
"""
CELLS = {"fedavg", "fedcosr", "fedsac"}
WITH_PARTITION = {"partition"} | CELLS
EVERY = {"data", "features"} | WITH_PARTITION
NONE: set[str] = set()
KINDS = {
    # the version, and how a cell is run, planned, shown: nothing that a number could depend on
    **dict.fromkeys(("__init__", "analysis", "api", "cli", "grid", "jobs", "run", "suite"), NONE),
    **dict.fromkeys(("command", "components", "errors", "files", "loading", "quantities", "settings", "shipped"), NONE),
    "randomness": {"features"} | WITH_PARTITION,
    "tree": CELLS,
    # the data set of the study, and what it is made with; everything is made from it
    "data": NONE,
    **dict.fromkeys(("data.__init__", "data.base", "data.common", "data.digits"), EVERY),
    **dict.fromkeys(("data.sources.__init__", "data.sources.parquet", "data.sources.pictures"), EVERY),
    "data.common.captions": NONE,
    "data.sources.torchvision_shim": {"features"},
    "partition": NONE,
    **dict.fromkeys(("partition.__init__", "partition.common.__init__", "partition.common.rows"), WITH_PARTITION),
    **dict.fromkeys(("partition.base", "partition.dirichlet", "partition.common.sizes"), WITH_PARTITION),
    "models": NONE,
    **dict.fromkeys(("models.__init__", "models.common.__init__"), CELLS | {"features"}),
    **dict.fromkeys(("models.base", "models.mlp", "models.common.initial", "models.common.norm"), CELLS),
    "models.common.pretrained": {"features"},
    "engine": CELLS,
    "engine.__init__": CELLS | {"features"},
    **dict.fromkeys(("engine.local.__init__", "engine.local.devices"), CELLS | {"features"}),
    "engine.features": {"features"},
    "methods": NONE,
    "methods.__init__": CELLS,
    "methods.fedavg": {"fedavg"},
    "methods.fedcosr": {"fedcosr"},
    "methods.fedsac": {"fedsac"},
    "methods.pfedgraph": {"fedsac"},
    "methods.common.__init__": {"fedcosr", "fedsac"},
    "methods.common.prototypes": {"fedcosr"},
    "methods.common.simplex": {"fedsac"},
    "methods.common.subspaces": {"fedsac"},
}
"Kinds of keys that change with a module; the longest name that fits a module, or the room it lies in, counts."


@pytest.fixture(scope="module")
def package(tmp_path_factory):
    """A copy of the package, which is read in place of the package wherever code is fingerprinted."""
    folder = tmp_path_factory.mktemp("copy") / "fedgrid"
    shutil.copytree(Path(fedgrid.__file__).parent, folder, ignore=shutil.ignore_patterns("__pycache__"))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(fedgrid, "__file__", str(folder / "__init__.py"))
        patch.setenv("XDG_CACHE_HOME", str(folder.parent / "cache"))
        patch.chdir(folder.parent)
        yield folder


def keys() -> dict[str, str]:
    """The keys of the study, by kind; of cells those on the images themselves."""
    forget_files()
    study = study_of(STUDY)
    images, features = study.datasets.values()
    plain = {c.row.label: c for c in study.cells if c.partition.data.key == images.key}
    actual = {"data": images.key, "features": features.key, "partition": plain["fedavg"].partition.key}
    return actual | {name: cell.key for name, cell in plain.items()}


def name_of(file: Path, package: Path) -> str:
    return ".".join(file.relative_to(package).with_suffix("").parts)


def expected(name: str) -> set[str]:
    """What `KINDS` says of a module: by its own name, else by its room's."""
    parts = name.split(".")
    return next(KINDS[name_part] for n in range(len(parts), 0, -1) if (name_part := ".".join(parts[:n])) in KINDS)


def test_an_edit_changes_the_keys_that_it_should(package):
    before, wrong = keys(), []
    modules = sorted(package.rglob("*.py"))
    for file in modules:
        code = file.read_text(encoding="utf-8")
        file.write_text(code + "\nEDITED = 1\n", encoding="utf-8")
        after, name = keys(), name_of(file, package)
        file.write_text(code, encoding="utf-8")
        changed = {kind for kind, key in before.items() if after[kind] != key}
        if changed != expected(name):
            wrong.append((name, sorted(changed)))
    assert keys() == before
    assert len(modules) > 150 and not wrong


def test_a_comment_changes_no_key(package):
    before = keys()
    for file in package.rglob("*.py"):
        file.write_text("# why\n" + file.read_text(encoding="utf-8"), encoding="utf-8")
    assert keys() == before


def test_every_line_of_the_table_is_of_a_module_or_a_room(package):
    names = {name_of(file, package) for file in package.rglob("*.py")}
    rooms = {path.name for path in package.iterdir() if path.is_dir()}
    assert KINDS.keys() <= names | rooms | {"data.common", "data.sources"}


def test_what_is_not_counted_exists_and_has_a_reason():
    for name, reason in NOT_COUNTED.items():
        path = Path(fedgrid.__file__).parents[1].joinpath(*name.split("."))
        assert path.with_suffix(".py").is_file() or (path / "__init__.py").is_file()
        assert len(reason) > 10
