"""The signals that end a job. The first one interrupts its work; later ones change nothing."""

import signal
from collections.abc import Callable

from fedgrid.engine.state.saving import Terminated
from fedgrid.jobs.warm.client import SIGNALS

TERMINATED = 75
"Exit code of a cell or a pack that one of `SIGNALS` ended: its checkpoints are written, it can resume."
INTERRUPTIONS = (Terminated, KeyboardInterrupt)
"Exceptions of the handlers, for SIGTERM and SIGUSR1, and for Ctrl-C."


def install_signal_handlers() -> None:
    """From now on the first of `SIGNALS`, also one that has been waiting, raises an interruption in the main thread.

    What this process was started to ignore, as a shell's background jobs ignore Ctrl-C, stays ignored.
    """
    for number in SIGNALS:
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, _interrupt)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, SIGNALS)


def ignore_signals() -> None:
    """From now on the signals that have such a handler change nothing; raises the interruption of one just before."""
    signal.pthread_sigmask(signal.SIG_BLOCK, SIGNALS)  # else one might meet a handler that is being replaced
    for number in SIGNALS:
        if signal.getsignal(number) in (_interrupt, _disregard):
            signal.signal(number, signal.SIG_IGN)  # unlike a handler, it outlasts the interpreter
    signal.pthread_sigmask(signal.SIG_UNBLOCK, SIGNALS)


def end_with_signals() -> None:
    """From now on `SIGNALS` end this process at once; before, they waited."""
    if signal.getsignal(signal.SIGINT) is not signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.SIG_DFL)  # no traceback
    signal.pthread_sigmask(signal.SIG_UNBLOCK, SIGNALS)


def heeding_signals(work: Callable[[], int]) -> int:
    """The exit code of a job's `work`, or `TERMINATED` where a signal interrupted it."""
    try:
        install_signal_handlers()
        code = work()
        ignore_signals()
    except INTERRUPTIONS:
        ignore_signals()
        return TERMINATED
    return code


def _interrupt(number: int, _: object) -> None:
    for other in SIGNALS:
        if signal.getsignal(other) is _interrupt:
            signal.signal(other, _disregard)  # not SIG_IGN: Python would print a traceback for one that came just now
    raise KeyboardInterrupt if number == signal.SIGINT else Terminated


def _disregard(*_: object) -> None:
    """The answer to signals after the first."""
