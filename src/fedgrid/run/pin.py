"""The code of a run, copied when the run begins: edits during the run affect the next run, not this one.

The package, the rules and the files of components outside any package are copied into the store, under the digest of
their content. Jobs find the copy by two environment variables, which a cluster's scheduler hands on to its nodes:
``PYTHONPATH`` for Python and the rules, and `fedgrid.loading.CODE` for components in files. Installed packages,
those that announce components included, are not copied.
"""

import hashlib
import os
import shutil
import tempfile
from pathlib import Path

import fedgrid
from fedgrid import shipped
from fedgrid.errors import UserError, reason
from fedgrid.grid.plan.planned_study import Study
from fedgrid.grid.study.canonical import digest
from fedgrid.grid.study.fingerprint import files
from fedgrid.loading import CODE, OUTSIDE, copy_of

RULES = "workflow"
Sources = dict[Path, Path]


class Pin:
    """The sources of a study's run, as they were found; see `keep` and `changed`."""

    def __init__(self, study: Study):
        self.study = study
        self.sources = self._sources()
        self.content = _content(self.sources)

    def _sources(self) -> Sources:
        """Every file that jobs may read as code, by its place in the copy."""
        package, rules = Path(fedgrid.__name__), shipped.folder(RULES)
        sources = {package / f.relative_to(shipped.PACKAGE): f for f in _below(shipped.PACKAGE)}
        sources |= {package / RULES / f.relative_to(rules): f for f in _below(rules)}
        outside = {(c.module, Path(c.file)) for cell in self.study.known.values() for c in cell.components if c.file}
        for module, path in outside:
            if module.startswith(OUTSIDE):
                copy = copy_of(path.parent, Path())
                sources |= {copy / file.relative_to(path.parent): file for file in files(module, path)}
        return sources

    def keep(self) -> dict[str, str]:
        """Copies the code, unless the very same is there; returns the environment of jobs that use the copy."""
        folder = (self.study.store / "code" / digest(self.content)).resolve()
        if not _holds(folder, self.content):
            _copy(self.sources, folder)
        path = os.pathsep.join([str(folder), *filter(None, [os.environ.get("PYTHONPATH")])])
        return {CODE: str(folder), "PYTHONPATH": path}

    def changed(self) -> list[str]:
        """Names of the source files that are other than they were when the run began."""
        now = _content({name: file for name, file in self.sources.items() if file.is_file()})
        return sorted(name for name, known in self.content.items() if now.get(name) != known)


def _below(folder: Path) -> list[Path]:
    return [file for file in folder.rglob("*") if file.is_file() and "__pycache__" not in file.parts]


def _content(sources: Sources) -> dict[str, str]:
    return {str(name): hashlib.sha256(file.read_bytes()).hexdigest() for name, file in sources.items()}


def _holds(folder: Path, content: dict[str, str]) -> bool:
    """Whether a copy is there, and every file of it as it was copied; a damaged one is removed."""
    files = {Path(name): folder / name for name in content}
    if all(file.is_file() for file in files.values()) and _content(files) == content:
        return True
    shutil.rmtree(folder, ignore_errors=True)
    return False


def _copy(sources: Sources, folder: Path) -> None:
    """Copies all files or none: into a folder beside the target, which is then renamed."""
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        temporary = Path(tempfile.mkdtemp(prefix=f".{folder.name}.", suffix=".tmp", dir=folder.parent))
    except OSError as error:
        raise UserError(f"{folder.parent}: cannot be written ({reason(error)})") from error
    try:
        for name, file in sources.items():
            (temporary / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(file, temporary / name)
        temporary.chmod(0o755)
        temporary.rename(folder)
    except OSError as error:
        raise UserError(f"{folder}: the code of this run cannot be kept there ({reason(error)})") from error
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
