"""Where results come from: versions and hardware, code, commit, and how to make them again elsewhere."""

import shlex
from collections import Counter
from pathlib import Path, PurePath
from typing import Any

from fedgrid.analysis.prose.adoptions import adopted, groups
from fedgrid.analysis.prose.phrases import listing
from fedgrid.analysis.scores.cells import FinishedCell
from fedgrid.analysis.scores.differences import by_environment
from fedgrid.analysis.scores.results import Results
from fedgrid.grid.plan.commit import text_at
from fedgrid.grid.study.model import FULL
from fedgrid.quantities import counted

LIBRARIES = ("torch", "numpy")
HARDWARE = {"processor": "cpu", "device": "device", "earlier attempts": "before"}
"Words of sentences → what cells call it."


def differing(results: Results) -> list[str]:
    """A sentence where the cells of a table were not all computed with the same versions on the same hardware.

    Adopted cells count as those of the version of fedgrid that adopted them, since its bits were found to be the same.
    """
    cells = results.trained
    counts = {"fedgrid": Counter(str(cell.fedgrid_version) for cell in cells)}
    counts |= {name: Counter(str(cell.versions.get(name)) for cell in cells) for name in LIBRARIES}
    counts |= {name: Counter(str(cell.hardware.get(key, "none")) for cell in cells) for name, key in HARDWARE.items()}
    sentences = [
        f"{name} ({', '.join(value + ': ' + counted(number, 'cell') for value, number in sorted(counts.items()))})"
        for name, counts in counts.items()
        if len(counts) > 1
    ]
    if not sentences:
        return []
    return [
        f"The cells differ in {listing(sentences)}: identical bits require the same kind of processor and the same "
        "libraries, so rows that are close may swap places."
    ]


def environments(results: Results) -> list[tuple[list[str], dict[str, Any]]]:
    """The different versions and hardware that cells ran on, most common first, with the names of these cells."""

    def name(cell: FinishedCell) -> str:
        return f"{results.names[cell.label]}, {results.column(*cell.column)}, seed {cell.seed}"

    return [(list(map(name, cells)), environment) for cells, environment in by_environment(results.trained)]


def commits(results: Results) -> list[tuple[str, bool]]:
    """The commits, each with whether its tree was clean, of the code that computed cells; the most common first.

    Those with nothing but cells that later code has adopted come last.
    """
    known = [(cell, (cell.commit.id, cell.commit.clean)) for cell in results.finished if cell.commit]
    current = Counter(commit for cell, commit in known if not cell.adopted)
    counts = Counter(commit for _, commit in known)
    return sorted(counts, key=lambda commit: (-current[commit], -counts[commit]))


def commit(results: Results) -> str:
    """The commits of the code that made the cells, as far as git knows them."""
    changes = {True: "no uncommitted changes", False: "uncommitted changes"}
    names = [f"{name}, with {changes[clean]} to the code" for name, clean in commits(results)]
    if not names:
        return "The commit is unknown: the code was not in a clone of the repository."
    return f"Commit {names[0]}." if len(names) == 1 else f"Cells were computed at several commits: {'; '.join(names)}."


def regeneration(results: Results, configfile: str) -> dict[str, Any]:
    """Which code and commands make the results again, by the names that templates of pages have for it."""
    return {
        "commit": commit(results),
        "adopted": adopted(results),
        "groups": groups(results),
        "where_to_run": "In a clone of the repository" if commits(results) else "In the folder of the project",
        "steps": steps(results, configfile),
        "reservations": reservations(results, configfile),
        "text": study_text(configfile),
    }


def steps(results: Results, configfile: str) -> list[str]:
    """The commands that make the study again, on any machine."""
    checkout = [f"git checkout {name}" for name, _ in commits(results)[:1]]
    return [*checkout, command(configfile, results.study.scale, results.study.name.partition("/")[2])]


def command(configfile: str, scale: str, only: str) -> str:
    """The command that makes a study at a scale, or that experiment of it alone where `only` is not empty."""
    chosen = [f"scale={scale}"] * (scale != FULL) + [f"only={only}"] * bool(only)
    config = ["--config", *chosen] if chosen else []
    return shlex.join(["snakemake", "--cores", "all", "--configfile", portable(configfile), *config])


def reservations(results: Results, configfile: str) -> list[str]:
    """What the commands of `steps` need that a clone does not have."""
    own_files = {row.title: row.file for row in results.study.methods.values() if row.file}
    sentences, text = [], study_text(configfile)
    if not all(clean for _, clean in commits(results)):
        sentences.append(
            "The code had uncommitted changes, so this commit alone may give other numbers. Compare the "
            "digests of the methods' code."
        )
    if not commits(results):
        sentences.append("Install the version of fedgrid given above; its commit is unknown.")
    if is_elsewhere(configfile):
        sentences.append(f"The study's file was not in the repository: save its text as {portable(configfile)}.")
    elif text and any(text_at(name, Path(configfile)) != text for name, _ in commits(results)[:1]):
        sentences.append(f"The study is not the one of this commit: save its text as {portable(configfile)}.")
    if own_files:
        sentences.append(f"You also need {listing(f'{file} ({title})' for title, file in own_files.items())}.")
    return sentences


def study_text(configfile: str) -> str:
    """The text of the study's file; empty where it is not there any more."""
    try:
        return Path(configfile).read_text(encoding="utf-8")
    except OSError:
        return ""


def is_elsewhere(configfile: str) -> bool:
    """Whether a study's file lies outside the folder in which the workflow runs."""
    return not Path(configfile).resolve().is_relative_to(Path.cwd().resolve())


def portable(configfile: str) -> str:
    """The study's file as a path from the repository's root; its bare name if it is elsewhere."""
    if is_elsewhere(configfile):
        return PurePath(configfile).name
    return Path(configfile).resolve().relative_to(Path.cwd().resolve()).as_posix()
