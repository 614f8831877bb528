"""The fingerprint of the code that can change what a component makes."""

from collections.abc import Iterable
from pathlib import Path

from fedgrid.data.sources.digests import digest as digest_of_file
from fedgrid.errors import UserError
from fedgrid.grid.study.canonical import digest
from fedgrid.grid.study.ledger import identity_of
from fedgrid.grid.study.nodes import ADVICE, WRITTEN_OUT
from fedgrid.grid.study.sources import Sources, is_installed, is_ours


def fingerprint(module: str, file: Path | None = None) -> str:
    """Digest of `modules`.

    Comments, docstrings, formatting and `FACTS` do not count; library code does not either (its versions are recorded
    in every result). The import graph is read from the source, nothing is imported.
    """
    return digest(modules(module, file))


def fingerprint_of_text(module: str, file: Path | None, also: Iterable[str]) -> str:
    """Digest of the files of `module`, `also` and what they import, docstrings included: a description quotes them."""
    nodes = Sources.of(module, file).closure([module, *also])
    return digest({name: node.text for name, node in nodes.items()})


def modules(module: str, file: Path | None = None, also: Iterable[str] = ()) -> dict[str, str]:
    """What the fingerprint of `module`, `also` and all that they import is made of, by the names of modules.

    Of fedgrid's own code it is the identity by the ledger of numerics, of code in a `file` outside the package, and of
    what that imports from beside it, the digest. The content of the data that its classes name as `files` counts too.
    `NOT_COUNTED` is left out, and what only those import.
    """
    sources = Sources.of(module, file)
    nodes = sources.closure([module, *also])
    outside = {name: node for name, node in nodes.items() if not is_ours(name)}
    counted = {name: node.digest for name, node in outside.items()}
    counted |= {f"{name}: {data.name}": digest_of_file(data) for name in outside for data in sources.data(name)}
    named = {module, *also}.union(*(node.imported for node in outside.values()))
    return counted | identity_of((name for name in named if is_ours(name) and name in nodes), sources)


def imported_modules(module: str, file: Path) -> list[str]:
    """The modules of fedgrid that a component outside the package imports and that count, directly or not."""
    return [name for name in Sources.of(module, file).closure([module]) if is_ours(name)]


def files(module: str, file: Path) -> list[Path]:
    """The files in the folder of a component outside any package that `fingerprint` covers."""
    sources = Sources.of(module, file)
    names = sources.closure([module])
    paths = [sources.file(name) for name in names] + [data for name in names for data in sources.data(name)]
    return sorted(f for f in paths if f and f.is_relative_to(file.parent))


def uncovered(module: str, file: Path) -> list[str]:
    """What the source of a component outside the package uses that no key can cover: where it is, what, and what to do.

    What only shows when the code runs is seen by `fedgrid.grid.study.audit`.
    """
    sources = Sources.of(module, file)
    nodes = {name: node for name, node in sources.closure([module]).items() if not is_ours(name)}
    flaws = [f"{sources.file(name)}, line {line}: {what}" for name, node in nodes.items() for line, what in node.flaws]
    for name, node in nodes.items():
        tops = {imported.partition(".")[0] for imported in node.imported} - {""}
        unknown = sorted(top for top in tops if not sources.file(top) and not is_installed(top))
        where, what = f"{sources.file(name)}: the module", f"is neither beside it nor installed; {ADVICE}"
        flaws += [f"{where} {top} {what}" for top in unknown]
    return flaws


def check_files(component: type, module: str, file: Path) -> None:
    """Raises UserError where a loaded class reads other `files` than its source writes out."""
    sources = Sources.of(module, file)
    used = [name for name in sources.closure([module]) if sources.data(name)]
    written = {file_name for name in used for file_name in sources.node(name).data}
    files = getattr(component, "files", ())
    if isinstance(files, str) or not {*files} <= written:
        raise UserError(f"{file}: {component.__name__}.files is {files!r} when it runs; {WRITTEN_OUT}")
