"""The form of a study, checked and typed; every mistake is one sentence with its file, line and key."""

import re
from dataclasses import replace
from typing import Any, TypeVar

from fedgrid.grid.study.codec import Misfit, decode
from fedgrid.grid.study.forms import MethodsFile, StudyFile
from fedgrid.grid.study.sections import Entries, Origin, Section, StudyError

Form = TypeVar("Form")


def typed(form: type[Form], section: Section) -> Form:
    """A part of a study in its `form`, with all defaults; StudyError for the first mistake."""
    try:
        return decode(form, section)
    except Misfit as error:
        raise _located(section, error) from error


def study_file(study: Section) -> StudyFile:
    """A study's file in its form; StudyError for the first mistake."""
    _check_texts(study, study.origin)
    if study.get("download") in ("true", "false"):  # as Snakemake's --config has it
        study = study | {"download": study["download"] == "true"}
    return typed(StudyFile, study)


def check_rows(methods: Section | Entries) -> None:
    """Raises StudyError for the first mistake in a file of methods, which has the form of a study's `methods`."""
    file = Section({"methods": methods}, methods.origin)
    _check_texts(file, file.origin)
    typed(MethodsFile, file)


def _located(study: Section, error: Misfit) -> StudyError:
    """The error at the value that it is about; one about a key that is absent is at the mapping that lacks it."""
    value: Any = study
    origin = study.origin
    for key in error.path:
        value, origin = value[key], value.origins[key]
    line = value.origins[error.key] if error.key is not None else origin
    return StudyError(Origin(line.file, line.line, origin.key), error.problem)


def _check_texts(value: Any, origin: Origin) -> None:
    """Raises StudyError for a text that no file can hold, as YAML can write half of a letter, and for other keys."""
    if isinstance(value, Section):
        for key, below in value.items():
            if not isinstance(key, str):
                raise StudyError(value.origins[key], f"YAML reads this key as {key!r}, not as a text; put it in quotes")
            if "{" in key and "}" not in key:
                name, _, settings = key.partition("{")
                problem = f"is a colon missing? '{name.strip()}: {{{settings}: …}}' is a name with settings"
                raise StudyError(replace(value.origins[key], key=origin.key), problem)
            _check_texts(key, value.origins[key])
            _check_texts(below, value.origins[key])
    elif isinstance(value, Entries):
        for entry, origin in zip(value, value.origins, strict=True):
            _check_texts(entry, origin)
    elif isinstance(value, str) and re.search("[\0\ud800-\udfff]", value):
        raise StudyError(origin, f"{value[:40]!r} is not text that a file can hold")
