"""What a cell says while it is trained, to a person who watches or in its log."""

import re
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn, TextIO

from fedgrid.errors import say
from fedgrid.jobs.standstill import unchanged_since

if TYPE_CHECKING:
    from tqdm import tqdm

    from fedgrid.engine.state.checkpoint import Progress

LOGGED = re.compile(r"round (\d+)/\d+  accuracy ([\d.]+) % \((\w+)\)  ")
"The line of a round in a log, as `Report` says it."


class Report:
    """Round, accuracy and seconds a round: a progress bar on a terminal, else a line for every round.

    The accuracy is that at the `point` of a round at which the method is scored, as in tables.
    """

    def __init__(self, title: str, rounds: int, point: str, stream: TextIO):
        self.title, self.rounds, self.point, self.stream = title, rounds, point, stream
        self.bar: tqdm[NoReturn] | None = None
        self.spent = 0.0
        self.accuracies: dict[int, float] = {}
        "Mean accuracy, a fraction, by the rounds evaluated since this process began."

    def __enter__(self) -> "Report":
        return self

    def __exit__(self, *_: object) -> None:
        if self.bar is not None:
            self.bar.close()

    def tell(self, progress: "Progress", remark: str) -> None:
        """Says a remark, or how the last round went."""
        spent = sum(progress.seconds.values())
        pace, self.spent = f"{spent - self.spent:.2f} s/round", spent
        accuracy = self._accuracy(progress)
        scores = f"{accuracy}  {pace}" if accuracy else ""
        if self.stream.isatty():
            self._draw(progress.rounds, scores, remark)
        else:
            line = f"round {progress.rounds}/{self.rounds}  {scores}".rstrip()
            say(remark or line, self.stream)

    def _accuracy(self, progress: "Progress") -> str:
        """The latest accuracy with its round, where that is not this one, and whether it still changes.

        Empty before the first evaluation.
        """
        metric = f"accuracy_{self.point}"
        accuracy = progress.record.latest(metric)
        if accuracy is None:
            return ""
        evaluated = next(round_ for round_, name, _, _ in reversed(progress.record.rows) if name == metric)
        when = "" if evaluated == progress.rounds else f", round {evaluated}"
        self.accuracies[evaluated] = accuracy
        since = unchanged_since(self.accuracies)
        still = f"  unchanged since round {since}" if since is not None else ""
        return f"accuracy {100 * accuracy:.2f} % ({self.point}{when}){still}"

    def _draw(self, round_: int, scores: str, remark: str) -> None:
        if self.bar is None:  # it appears with the first round, after everything was found to be in order
            from tqdm import tqdm

            form = "{desc} {percentage:3.0f}% |{bar}| {n_fmt}/{total_fmt} rounds  {elapsed}<{remaining}  {postfix}"
            self.bar = tqdm(
                desc=self.title,
                file=self.stream,
                total=self.rounds,
                initial=round_,
                bar_format=form,
                dynamic_ncols=True,
            )
        if remark:
            self.bar.write(remark, file=self.stream)
        self.bar.set_postfix_str(scores, refresh=False)
        self.bar.update(round_ - self.bar.n)
        self.bar.refresh()


def logged_accuracies(log: Path) -> list[tuple[str, int, float]]:
    """Point, round and mean accuracy (a fraction) of each round that a log reports; empty without a log."""
    try:
        text = log.read_text(encoding="utf-8", errors="replace")
    except FileNotFoundError:
        return []
    return [(point, int(round_), float(percent) / 100) for round_, percent, point in LOGGED.findall(text)]
