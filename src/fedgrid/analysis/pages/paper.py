"""Write the page of a paper: all of its experiments in one HTML file that needs no other, with the answer first.

Run as ``python -m fedgrid.analysis.pages.paper MANIFEST… OUT.html --configfile YAML``.
"""

from argparse import ArgumentParser
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

import pandas as pd

from fedgrid.analysis.figures.common.embedding import PAGE_IMAGE_BYTES, within
from fedgrid.analysis.pages.paper_section import Section, section
from fedgrid.analysis.papers import cross_paper
from fedgrid.analysis.papers.finding import finding, main_experiment
from fedgrid.analysis.papers.headline import headline
from fedgrid.analysis.papers.overview import NOT_RUN, Overview, overview
from fedgrid.analysis.prose import origin
from fedgrid.analysis.scores import differences
from fedgrid.analysis.scores.results import Results, load
from fedgrid.analysis.tables.common.grid import rendered
from fedgrid.command import run
from fedgrid.errors import UserError
from fedgrid.files import path_of, write_text
from fedgrid.grid.plan.manifest import CURRENT, OUT_OF_DATE, at_other_scales, tables_state
from fedgrid.grid.plan.manifest_model import StudyDescription, read_manifest
from fedgrid.grid.study import sections
from fedgrid.grid.study.model import FULL
from fedgrid.grid.study.printed import printed_file, read_printed
from fedgrid.grid.study.yaml_file import read


def paper(manifests: Sequence[Path], out_html: Path, configfile: str) -> None:
    """Write the page of the experiments that the study wants made from `manifests` now, in that order.

    An experiment that was not run, or whose results were made from another manifest, is said to be so and adds nothing
    else to the page. `configfile` is the study's file, for what no result says: the titles of these experiments, what
    the whole paper assumes. Raises `UserError` where a result is damaged, or the tables of an experiment are not there.
    """
    text = read(Path(configfile)) if Path(configfile).is_file() else sections.Section()
    described = text.get("experiments") or {}
    overviews = [experiment(manifest, described.get(manifest.parent.name) or {}) for manifest in manifests]
    papers = read_other_papers(path_of(printed_file(text), "published")) if "published" in text else {}
    assumed = text.get("assumed") or {}
    ran = {overview.id: overview.results for overview in overviews if overview.results}
    same, different = differences.compare_settings({name: results for name, results in ran.items() if results.cells})
    all_of_them = merge_studies(list(ran.values()))
    study = all_of_them.study
    order = [*(text.get("scales") or {}), FULL]
    parts = limit_images(
        [section(one, out_html, assumed, papers, configfile, at_all_scales(one, order)) for one in overviews]
    )
    main = main_experiment(overviews)
    page = rendered(
        "paper.html.j2",
        title=study.paper or text.get("title") or out_html.parent.name,
        name=out_html.parent.name,
        scale=study.scale,
        finding=finding(main) if main else "",
        main=next((part for part in parts if part.overview is main), None),
        headline=headline(overviews, papers),
        sections=[part for part in parts if part.overview.state != NOT_RUN],
        not_run=[part.overview for part in parts if part.overview.state == NOT_RUN],
        command=partial(origin.command, configfile, study.scale),
        same=same,
        different=different,
        assumed=assumed,
        environments=differences.environments(all_of_them),
        **origin.regeneration(all_of_them, configfile),
    )
    write_text(out_html, page)


def experiment(manifest: Path, text: Mapping[str, Any]) -> Overview:
    """The experiment that the study wants made from `manifest` now, without results that were made from another one."""
    state = tables_state(manifest)
    if state == CURRENT:
        return overview(manifest.parent, {cell.key: cell.path for cell in read_manifest(manifest).cells})
    folder, out_of_date = manifest.parent, state == OUT_OF_DATE
    title = text.get("title", "").removesuffix(".") or folder.name
    about = title, text.get("source", ""), text.get("lacks", "")
    return Overview(folder.name, folder, *about, out_of_date=out_of_date)


def at_all_scales(overview: Overview, order: Sequence[str]) -> dict[str, Results]:
    """The results of the experiment at every scale that has any, by name and in that order; its own are among them."""
    if overview.results is None:
        return {}
    own = overview.results.study
    name = study_of(own)
    existing = [overview.results, *map(load, at_other_scales(overview.folder, name))]
    scales = {results.study.scale: results for results in existing if study_of(results.study) == name}
    return dict(sorted(scales.items(), key=lambda item: order.index(item[0]) if item[0] in order else len(order)))


def study_of(experiment: StudyDescription) -> str:
    """The name of its study, whatever the scale."""
    return experiment.name.partition("/")[0].removesuffix(f"-{experiment.scale}")


def read_other_papers(file: Path) -> dict[str, cross_paper.Numbers]:
    """By name of the paper, the printed numbers beside the `file` of this paper's, in the same folder."""
    numbers_of: dict[str, cross_paper.Numbers] = {}
    for other in sorted(file.parent.glob("*.csv")):
        with suppress(UserError):  # a table of something else
            numbers_of |= {name_of(other): read_printed(str(other))} if other != file else {}
    return numbers_of


def name_of(file: Path) -> str:
    """The name of the paper of a file of printed numbers: its study's title up to the colon."""
    try:
        title = read(file.with_suffix(".yaml"))["title"]
    except (UserError, KeyError, TypeError):  # no study of it is available
        return file.stem
    return str(title).partition(":")[0]


def merge_studies(experiments: Sequence[Results]) -> Results:
    """The cells of all experiments as one `Results`, which `origin` expects."""
    empty = StudyDescription(name="", title="")
    first = experiments[0].study if experiments else empty
    methods = {label: row for results in experiments for label, row in results.study.methods.items()}
    study = replace(empty, methods=methods, scale=first.scale, paper=first.paper)
    return Results(study, [cell for results in experiments for cell in results.cells], pd.DataFrame())


def limit_images(sections: Sequence[Section]) -> list[Section]:
    """The sections with as many images as there is room for on one page."""
    pictures = [picture for part in sections for picture in (*part.pictures, *part.partitions)]
    fitted = iter(within(pictures, PAGE_IMAGE_BYTES))
    limited = []
    for part in sections:
        drawn, partitions = (list(islice(fitted, len(shown))) for shown in (part.pictures, part.partitions))
        limited.append(replace(part, pictures=drawn, partitions=partitions))
    return limited


def main(argv: Sequence[str] | None = None) -> int:
    """Command line: MANIFEST … OUT_HTML [--configfile YAML]."""
    parser = ArgumentParser(prog="python -m fedgrid.analysis.pages.paper", description="Write the page of a paper.")
    parser.add_argument(
        "manifests", type=Path, nargs="+", metavar="MANIFEST", help="that an experiment's results are to be made from"
    )
    parser.add_argument("out_html", type=Path, help="report.html to write")
    parser.add_argument("--configfile", default="STUDY.yaml", help="the study's file, as the reader would name it")
    parser.set_defaults(action=paper)
    return run(parser, argv)


if __name__ == "__main__":
    raise SystemExit(main())
