"""Draw a figure: learning curves, ablation bars, a partition as bubbles or bars (OUT_STEM.svg, .pdf, .txt: caption)."""

from argparse import ArgumentParser
from collections.abc import Callable, Sequence
from pathlib import Path

from fedgrid.analysis.ablation import ablation
from fedgrid.analysis.bubbles import bubbles
from fedgrid.analysis.curves import curves
from fedgrid.analysis.results import load
from fedgrid.analysis.shares import shares
from fedgrid.analysis.style import drawing, save, write_figure
from fedgrid.command import run


def draw_curves(source: Path, out_stem: Path, data: str) -> None:
    """Draw the learning curves of data set `data`, and OUT_STEM.narrow.svg for narrow screens."""
    results = load(source)
    with drawing():
        figure, title, _ = curves(results, data, narrow=True)
        write_figure(figure, Path(f"{out_stem}.narrow.svg"), title)
        figure, title, caption = curves(results, data)
        save(figure, out_stem, title, caption)


def draw_ablation(source: Path, out_stem: Path, method: str, data: str) -> None:
    """Draw the variants of `method` on data set `data`."""
    with drawing():
        figure, title, caption = ablation(load(source), method, data)
        save(figure, out_stem, title, caption)


def draw_partition(source: Path, out_stem: Path, title: str) -> None:
    """Draw who holds what in one partition file, as bubbles."""
    with drawing():
        figure, title, caption = bubbles(source, title)
        save(figure, out_stem, title, caption)


def draw_shares(source: Path, out_stem: Path, title: str) -> None:
    """Draw who holds what in one partition file, as bars coloured by class."""
    with drawing():
        figure, title, caption = shares(source, title)
        save(figure, out_stem, title, caption)


OF_RESULTS: dict[str, Callable[..., None]] = {"curves": draw_curves, "ablation": draw_ablation}
"""Kinds of figures that are drawn from results.parquet."""
OF_PARTITION: dict[str, Callable[..., None]] = {"partition": draw_partition, "shares": draw_shares}
"""Kinds of figures that are drawn from a partition's file."""


def main(argv: Sequence[str] | None = None) -> int:
    """Command line: {curves,ablation,partition,shares} SOURCE OUT_STEM with options."""
    parser = ArgumentParser(prog="python -m fedgrid.analysis.figures", description=__doc__)
    kinds = parser.add_subparsers(required=True)
    for name, options in [
        ("curves", ["data"]),
        ("ablation", ["method", "data"]),
        ("partition", ["title"]),
        ("shares", ["title"]),
    ]:
        action, source = (OF_RESULTS | OF_PARTITION)[name], "RESULTS" if name in OF_RESULTS else "PARTITION"
        kind = kinds.add_parser(name, help=action.__doc__, description=action.__doc__)
        kind.add_argument("source", type=Path, metavar=source)
        kind.add_argument("out_stem", type=Path, metavar="OUT_STEM", help="path of the figure without its suffix")
        for option in options:
            kind.add_argument(f"--{option}", required=True)
        kind.set_defaults(action=action)
    return run(parser, argv)


if __name__ == "__main__":
    raise SystemExit(main())
