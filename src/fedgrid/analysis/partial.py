"""Tables, figures and report of a study whose cells are not all finished, in a folder of their own.

Run as ``python -m fedgrid.analysis.partial PLAN`` where a run ends without all of them.
"""

import shutil
from argparse import ArgumentParser
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from fedgrid.analysis import captions, collect
from fedgrid.analysis.figures import OF_PARTITION, OF_RESULTS
from fedgrid.analysis.report import report
from fedgrid.analysis.results import load
from fedgrid.analysis.tables import write_tables
from fedgrid.command import run
from fedgrid.errors import UserError, reason
from fedgrid.files import check_writable
from fedgrid.grid import manifest, plan
from fedgrid.grid.drawing import Drawing, drawings
from fedgrid.grid.planned import Study
from fedgrid.run import states


def report_of(study: Study, configfile: str) -> str:
    """Makes the report of what is finished, in `Study.partial`; returns a line that says where and how far it is."""
    check_writable(study.folder, "results")
    said = write(manifest.content(study), absent_from(study), drawings(study), study.partial, configfile)
    return f"{study.partial}/report.html: {said}"


def absent_from(study: Study) -> dict[str, dict[str, str]]:
    """Cells without results, by key: the status of each, and of a failed one the reason."""
    found = {key: state for key, state in states.read(study).items() if state.name not in ("done", "diverged")}
    reasons = {key: " ".join(state.remark.split()) for key, state in found.items() if state.name == "failed"}
    return {key: {"status": state.name, "reason": reasons.get(key, "")} for key, state in found.items()}


def write(
    listed: dict[str, Any],
    absent: Mapping[str, Mapping[str, str]],
    figures: Mapping[str, Drawing],
    folder: Path,
    configfile: str,
) -> str:
    """Make results.parquet, tables/, figures/ and report.html in `folder`, in place of what is there.

    `listed` is the content of the study's manifest, `absent` as in `collect.write`, of the `figures`, by name,
    those for which there is nothing yet are left out. Returns how far the study is, in a
    sentence. Raises `UserError` when no cell is finished.
    """
    if all(cell["key"] in absent for cell in listed["cells"]):
        raise UserError(f"no cell of {listed['study']['name']} is finished yet, so there is nothing to report")
    with made_anew(folder) as made:
        results = made / "results.parquet"
        collect.write(listed, results, absent)
        study = load(results)
        write_tables(results, made / "tables")
        drawn = {name: figure for name, figure in figures.items() if drawable(figure, study.finished)}
        stems = [made / "figures" / name for name in drawn]
        for stem, figure in zip(stems, drawn.values(), strict=True):
            source = results if figure.kind in OF_RESULTS else figure.source
            (OF_RESULTS | OF_PARTITION)[figure.kind](source, stem, **figure.options)
        report(results, made / "report.html", made / "tables", [Path(f"{stem}.svg") for stem in stems], configfile)
    return captions.progress(study) or f"all {len(study.cells)} cells are finished."


def drawable(figure: Drawing, finished: list[dict[str, Any]]) -> bool:
    """Whether a figure has its partition, or any of the `finished` cells that its options name."""
    if figure.kind in OF_PARTITION:
        return figure.source.is_file()
    return any(all(cell[name] == value for name, value in figure.options.items()) for cell in finished)


@contextmanager
def made_anew(folder: Path) -> Iterator[Path]:
    """An empty folder that replaces `folder` at the end, so that nothing of an earlier report is left in it."""
    try:
        with TemporaryDirectory(dir=folder.parent, prefix=f".{folder.name}.", suffix=".tmp") as temporary:
            made = Path(temporary) / folder.name
            made.mkdir()
            yield made
            shutil.rmtree(folder, ignore_errors=True)
            made.rename(folder)
    except OSError as error:
        raise UserError(f"{folder}: cannot be written ({reason(error)})") from error


def from_plan(file: Path) -> None:
    """Makes the report of a run's plan, and prints where it is."""
    found = plan.read(file)
    print(report_of(found.study, found.configfile))


def main(argv: Sequence[str] | None = None) -> int:
    """Command line: PLAN."""
    parser = ArgumentParser(prog="python -m fedgrid.analysis.partial", description="Report what is finished.")
    parser.add_argument("file", type=Path, metavar="PLAN", help="the plan of the run")
    parser.set_defaults(action=from_plan)
    return run(parser, argv)


if __name__ == "__main__":
    raise SystemExit(main())
