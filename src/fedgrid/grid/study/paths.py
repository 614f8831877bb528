"""Paths of what a study reads: in its file they are relative to that file, on a command line to the working folder."""

import os
from pathlib import Path

from fedgrid.errors import UserError
from fedgrid.grid.study.sections import COMMAND_LINE, Origin, Section, located


def input_path(text: str, origin: Origin) -> str:
    """The path in `text`, which was written at `origin`, as it is from the working folder.

    Raises UserError for one that is there only relative to the working folder: it names the path to write instead.
    """
    if not origin.file or origin.file == COMMAND_LINE or text.startswith("~") or os.path.isabs(text):
        return text
    folder = Path(origin.file).parent
    path = os.path.normpath(folder / text)
    if path != text and os.path.exists(text) and not os.path.exists(path):
        right = os.path.relpath(text, folder)
        raise UserError(f"'{text}' is looked up beside the study's file, where there is no such file; write '{right}'")
    return path


def with_input_path(entry: Section, name: str) -> Section:
    """The entry with the path below `name`, where it has one, as it is from the working folder."""
    if not isinstance(entry.get(name), str) or not entry[name]:
        return entry
    with located(entry.origins[name]):
        return entry | {name: input_path(entry[name], entry.origins[name])}
