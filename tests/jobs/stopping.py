"""The job of a cell that is interrupted at a known moment: MOMENT, SIGNALS and the arguments of a cell."""

import os
import signal
import sys
import time

from fedgrid.jobs.warm import enter_job


def main(argv: list[str]) -> int:
    """The moment is `import`, `return` or a function of the cell's module, before which the signals come, all at once.

    Those of `import` come from outside; for the others, their numbers stand in one argument.
    """
    moment, numbers, *arguments = argv
    if moment == "import":
        _await_signal()
    from fedgrid.jobs import cell, signals

    def interrupt() -> None:
        before = signal.pthread_sigmask(signal.SIG_BLOCK, set(signal.Signals))
        for number in numbers.split():
            os.kill(os.getpid(), int(number))
        signal.pthread_sigmask(signal.SIG_SETMASK, before)

    for module in (cell, signals):
        if hasattr(module, moment):
            _do_before(module, moment, interrupt)
    code = cell.main(arguments)
    if moment == "return":
        interrupt()
    return code


def _await_signal() -> None:
    """Says that it waits, and returns once a blocked signal has come."""
    print("waiting", flush=True)
    while not signal.sigpending():
        time.sleep(0.01)


def _do_before(module, name, first) -> None:
    function = getattr(module, name)

    def both(*arguments, **options):
        first()
        return function(*arguments, **options)

    setattr(module, name, both)


if __name__ == "__main__":
    enter_job()
    sys.exit(main(sys.argv[1:]))
