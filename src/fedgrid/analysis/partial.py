"""Tables, figures and report of a study whose cells are not all finished, in a folder of their own."""

import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from fedgrid.analysis import captions, collect
from fedgrid.analysis.figures import OF_PARTITION, OF_RESULTS
from fedgrid.analysis.report import report
from fedgrid.analysis.results import load
from fedgrid.analysis.tables import write_tables
from fedgrid.errors import UserError, reason
from fedgrid.grid.drawing import Drawing


def write(
    listed: dict[str, Any],
    absent: Mapping[str, Mapping[str, str]],
    figures: Mapping[str, Drawing],
    folder: Path,
    configfile: str,
) -> str:
    """Make results.parquet, tables/, figures/ and report.html in `folder`, in place of what is there.

    `listed` is the content of the study's manifest, `absent` as in `collect.write`, `figures` has by name a kind, a
    partition's file and options; those for which there is nothing yet are left out. Returns how far the study is, in a
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
        for stem, (kind, source, options) in zip(stems, drawn.values(), strict=True):
            if kind in OF_RESULTS:
                OF_RESULTS[kind](results, stem, **options)
            else:
                OF_PARTITION[kind](source, stem, **options)
        report(results, made / "report.html", made / "tables", [Path(f"{stem}.svg") for stem in stems], configfile)
    return captions.progress(study) or f"all {len(study.cells)} cells are finished."


def drawable(figure: Drawing, finished: list[dict[str, Any]]) -> bool:
    """Whether a figure has its partition, or any of the `finished` cells that its options name."""
    kind, source, options = figure
    if kind in OF_PARTITION:
        return source.is_file()
    return any(all(cell[name] == value for name, value in options.items()) for cell in finished)


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
