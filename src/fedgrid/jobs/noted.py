"""How the work on a cell ends, noted in the store."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from fedgrid.engine.state.checkpoint import Progress
from fedgrid.errors import Damaged, UserError, sentence
from fedgrid.jobs.reporting import Report, Status, ending
from fedgrid.jobs.signals import INTERRUPTIONS, ignore_signals

OF_MEMORY = ("out of memory", "allocate memory")
"Words of errors that torch raises for lack of memory."


@contextmanager
def noted(status: Status) -> Iterator[None]:
    """Within it a cell is worked on; notes that it has results, or why it has none, and raises that again."""
    try:
        with _failures_noted(status):
            yield
    except INTERRUPTIONS:
        status.interrupted(ending())
        raise
    status.done()


@contextmanager
def _failures_noted(status: Status) -> Iterator[None]:
    try:
        yield
    except (UserError, OSError) as error:
        ignore_signals()
        final = error.removed() if isinstance(error, Damaged) else error
        status.failed(sentence(final))
        raise final from error
    except Exception as error:
        ignore_signals()
        status.failed(f"{'out of memory: ' if _of_memory(error) else ''}{type(error).__name__}: {error}")
        raise


def _of_memory(error: Exception) -> bool:
    """Whether memory, of the processor or the GPU, ran out; torch reports it in several ways."""
    out_of_memory = isinstance(error, MemoryError) or type(error).__name__ == "OutOfMemoryError"
    return out_of_memory or (isinstance(error, RuntimeError) and any(pattern in str(error) for pattern in OF_MEMORY))


def telling(report: Report, status: Status) -> Callable[[Progress, str], None]:
    """What tells a person and the store how a cell is doing."""

    def tell(progress: Progress, remark: str) -> None:
        report.tell(progress, remark)
        status.running(progress)

    return tell
