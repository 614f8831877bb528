"""What `fedgrid.jobs.calibration` measured of trials, kept as JSON in the user's cache: torch takes seconds to import.

It is kept under everything that decides it: the trial, the code, the versions of libraries and, of speeds, the machine.
"""

import platform
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from fedgrid.errors import UserError
from fedgrid.files import cache, read_json, write_json
from fedgrid.grid.costs.forecast import Speed, Trial
from fedgrid.grid.study.canonical import digest
from fedgrid.grid.study.fingerprint import fingerprint_of_text
from fedgrid.jobs import machine

CALIBRATION = "fedgrid.jobs.calibration"
"The module that measures, with all that it imports."
LIBRARIES = ("torch", "timm")
"Whose code networks are made of."


def speeds(trials: Sequence[Trial]) -> list[Speed]:
    """The speed of every trial on a core of this machine; those that are not known are measured for two seconds."""

    def measure(unknown: Sequence[Trial]) -> list[dict[str, Any]]:
        from fedgrid.jobs import calibration

        return [asdict(speed) for speed in calibration.speeds(unknown)]

    here = [platform.node(), machine.processor()]
    return [Speed(**values) for values in _measured("speeds", trials, here, measure)]


def sizes(trials: Sequence[Trial]) -> list[int]:
    """The numbers in the network of every trial."""

    def measure(unknown: Sequence[Trial]) -> list[dict[str, int]]:
        from fedgrid.jobs import calibration

        return [{"numbers": numbers} for numbers in calibration.sizes(unknown)]

    return [values["numbers"] for values in _measured("numbers", trials, [], measure)]


def _measured(
    kind: str,
    trials: Sequence[Trial],
    circumstances: Sequence[str],
    measure: Callable[[Sequence[Trial]], Sequence[Mapping[str, Any]]],
) -> list[Mapping[str, Any]]:
    """What is known of every trial under these circumstances; of all others together, what `measure` finds out."""
    files = [_file(kind, trial, circumstances) for trial in trials]
    known = {file: values for file in files if (values := _known(file))}
    unknown = {file: trial for file, trial in zip(files, trials, strict=True) if file not in known}
    for file, values in zip(unknown, measure([*unknown.values()]) if unknown else (), strict=True):
        known[file] = values
        with suppress(UserError):  # it only saves time
            write_json(file, values)
    return [known[file] for file in files]


def _file(kind: str, trial: Trial, circumstances: Sequence[str]) -> Path:
    model = trial.model
    code = fingerprint_of_text(model.module, Path(model.file) if model.file else None, [CALIBRATION])
    identity = [trial.name, code, *map(_version, LIBRARIES), *circumstances]
    return cache(kind) / f"{digest(identity)}.json"


def _known(file: Path) -> Mapping[str, Any] | None:
    try:
        return read_json(file)
    except UserError:
        return None


def _version(library: str) -> str:
    """The version of an installed library; empty where it is not."""
    try:
        return version(library)
    except PackageNotFoundError:
        return ""
