"""What both kinds of spreadsheets hold: the printed tables, and every number in tidy frames."""

from collections.abc import Iterator

import pandas as pd

from fedgrid.analysis.scores.results import Results
from fedgrid.api.results import StudyResults

VALUES = "values"


def tidy_frames(results: Results) -> Iterator[tuple[str, pd.DataFrame]]:
    """Frames by name: cells, scores, curves and, last and largest, values."""
    study = StudyResults(results)
    yield "cells", study.cells
    yield "scores", study.scores
    yield "curves", study.curves
    yield VALUES, study.values
