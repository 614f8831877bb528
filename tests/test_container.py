"""The Dockerfile, as far as it can be read: no image is built here.

So this does not show that the base image and torch's index have what is asked of them, nor that a container runs.
"""

import re
import shlex
import shutil
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


def instructions():
    """Each instruction of the Dockerfile with its words, in order."""
    text = re.sub(r"^#.*\n", "", (ROOT / "Dockerfile").read_text(encoding="utf-8"), flags=re.M)
    lines = text.replace("\\\n", " ").splitlines()
    return [(name, rest) for name, _, rest in (line.partition(" ") for line in lines if line)]


def of(name):
    return [shlex.split(rest) for instruction, rest in instructions() if instruction == name]


COPIES = [(source, target) for *sources, target in of("COPY") for source in sources]


def test_it_consists_of_known_instructions_on_a_pinned_base_of_a_supported_python():
    names = [name for name, _ in instructions()]
    assert names[0] == "FROM" and names.count("FROM") == 1
    assert set(names) == {"ARG", "CMD", "COPY", "ENV", "FROM", "RUN", "USER", "WORKDIR"}
    (image,) = of("FROM")[0]
    version = re.fullmatch(r"python:(3\.\d+)-slim-bookworm", image)[1]
    classifiers = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["classifiers"]
    assert f"Programming Language :: Python :: {version}" in classifiers


def test_what_it_copies_exists_and_is_not_ignored():
    ignored = (ROOT / ".dockerignore").read_text(encoding="utf-8").splitlines()
    assert all((ROOT / source).exists() for source, _ in COPIES)
    assert {f"!{source}" for source, _ in COPIES} == {line for line in ignored if line.startswith("!")}


def test_every_installation_is_of_the_versions_that_are_tested():
    installations = [rest for name, rest in instructions() if name == "RUN" and "pip install" in rest]
    assert len(installations) == 2
    assert all("--constraint constraints.txt" in rest and "--no-cache-dir" in rest for rest in installations)
    pinned = {line.partition("==")[0] for line in (ROOT / "constraints.txt").read_text().splitlines()}
    assert installations[0].endswith(" torch torchvision") and {"torch", "torchvision"} <= pinned
    extras = re.search(r"'\.\[(.*)\]'$", installations[1])[1].split(",")
    known = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["optional-dependencies"]
    assert set(extras) <= set(known)


def test_a_build_argument_may_name_an_index_of_torch():
    """Without one, torch comes from where everything else does."""
    assert ["TORCH_INDEX="] in of("ARG")
    assert any('${TORCH_INDEX:+--extra-index-url "$TORCH_INDEX"}' in rest for _, rest in instructions())


def test_it_does_not_run_as_root():
    (user,) = of("USER")[-1]
    names = [name for name, _ in instructions()]
    assert int(user) > 0 and "RUN" not in names[names.index("USER") :]
    assert any(f"useradd --uid {user} " in rest for name, rest in instructions() if name == "RUN")


def test_the_package_can_be_built_from_what_is_copied(tmp_path):
    for source, target in COPIES:
        place = tmp_path / target / (Path(source).name if target.endswith("/") else "")
        place.parent.mkdir(parents=True, exist_ok=True)
        copy = shutil.copytree if (ROOT / source).is_dir() else shutil.copy
        copy(ROOT / source, place)
    subprocess.run([sys.executable, "-m", "hatchling", "build", "-t", "wheel"], cwd=tmp_path, check=True)
    (wheel,) = (tmp_path / "dist").glob("*.whl")
    files = set(zipfile.ZipFile(wheel).namelist())
    assert {"fedgrid/workflow/Snakefile", "fedgrid/profiles/default/config.yaml", "fedgrid/config/study.yaml"} <= files


@pytest.mark.skipif(not shutil.which("hadolint"), reason="hadolint is not installed")
def test_hadolint_has_no_complaint():
    run = subprocess.run(["hadolint", "Dockerfile"], cwd=ROOT, capture_output=True, text=True)
    assert run.returncode == 0, run.stdout + run.stderr
