"""``fedgrid predict``: a final model of a cell scores pictures of the user's own."""

import argparse
import csv
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from fedgrid.api.finding import the_cell
from fedgrid.cli.parsing import STUDY, any_path, command, option, path, study_of
from fedgrid.errors import say
from fedgrid.files import replacing

if TYPE_CHECKING:
    from fedgrid.api.scoring import Score

ESCAPED = "backslashreplace"
"How a CSV file holds the name of a picture that is not UTF-8."


@command(
    option("cell CELL", "the file of its results, its key, or words that fit it alone: 'fedper, seed 0'"),
    option("images IMAGE", "pictures, or folders of pictures", nargs="+", type=any_path),
    option("--client N", "whose model; needed where clients have their own", type=int),
    option("--point", "global, received, adapted or trained (default: the point that the method's paper scores)"),
    option("--out FILE", "write a CSV file instead of printing", type=path),
    *STUDY,
)
def predict(arguments: argparse.Namespace) -> int:
    """Score your own pictures with a final model of a cell that keeps its models.

    fedgrid predict 3fa1b2c4 photo.jpg --client 3
    fedgrid predict results/…/s0-3fa1b2c4d5e6f708.parquet photos/ --client 3 --point received --out scores.csv
    """
    from fedgrid.api.scoring import Scorer, pictures_in  # torch takes seconds to import

    scorer = Scorer(_cell(arguments), arguments.client, arguments.point)
    files = pictures_in(arguments.images)
    scores = scorer.scores(files)
    if arguments.out:
        _write(arguments.out, scores)
    else:
        width = max(len(str(file)) for file in files)
        for score in scores:
            print(f"{score.file!s:{width}}  {score.name}  {score.probability:.4f}")
    for change, number in scorer.changes.items():
        say(f"fedgrid: {number:,} of {len(files):,} pictures: {change}", sys.stderr)
    return 0


def _cell(arguments: argparse.Namespace) -> Path:
    """The file of results, or of models, that is meant."""
    file = path(arguments.cell)
    is_path = file.is_file() or file.suffix in (".parquet", ".safetensors")
    selection = [word.strip() for word in arguments.cell.split(",")]
    return file if is_path else the_cell(study_of(arguments), selection, "predict").file


def _write(file: Path, scores: Iterable["Score"]) -> None:
    with replacing(file) as temporary, open(temporary, "w", newline="", encoding="utf-8", errors=ESCAPED) as target:
        writer = csv.writer(target)
        writer.writerow(["file", "class", "probability"])
        writer.writerows([score.file, score.name, f"{score.probability:.6f}"] for score in scores)
