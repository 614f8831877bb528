"""Which names the files of an archive may have."""

import unicodedata
from collections.abc import Sequence

from fedgrid.api.archive.code_names import objection
from fedgrid.api.archive.layout import OUTSIDE, PROJECT, RESULT_KINDS, RESULTS, STEERING, STORED, TOP
from fedgrid.errors import UserError

LONGEST_NAME, LONGEST_PART = 1000, 255
"Characters of a name; bytes of a part of it."


def check_name(name: str) -> None:
    """Raises UserError for a name that is not of an archive, or that leads out of the folder that it is unpacked to."""
    shown, parts = f"{name[:80]!r}", name.split("/")
    if name.startswith("/") or name[1:2] == ":":
        raise UserError(f"the name {shown} is absolute")
    if ".." in parts:
        raise UserError(f"the name {shown} leads out of the archive")
    if len(name) > LONGEST_NAME or any(len(part.encode(errors="replace")) > LONGEST_PART for part in parts):
        raise UserError(f"the name {shown} is too long")
    if any(unicodedata.category(character) in ("Cc", "Cf", "Cs") or character in '\\:*?"<>|' for character in name):
        raise UserError(f"the name {shown} has a character that no name here has")
    if any(not part.strip(" ") or part.startswith(".") or part.endswith((".", " ")) for part in parts):
        raise UserError(f"the name {shown} has a part that is empty or hidden")
    if not _is_known(parts):
        raise UserError(f"{shown} is not a file that an archive of fedgrid bundle has")
    if parts[0] == PROJECT and (problem := objection(name.removeprefix(f"{PROJECT}/"))):
        raise UserError(f"{shown} {problem}")


def allowed(name: str) -> bool:
    """Whether `check_name` lets the name pass."""
    try:
        check_name(name)
    except UserError:
        return False
    return True


def _is_known(parts: Sequence[str]) -> bool:
    top, *below = parts
    if top == RESULTS:
        in_place = bool(below) and (below[0] != "store" or (len(below) > 2 and below[1] in STORED))
        return in_place and below[-1].endswith(RESULT_KINDS)
    if top == PROJECT:
        return bool(below) and below[0].casefold() not in STEERING
    return bool(below) if top == OUTSIDE else not below and top in TOP


def check_different(names: Sequence[str]) -> None:
    """Raises UserError for a name that comes twice, on some file system, or that is also a folder."""
    known: dict[str, str] = {}
    for name in names:
        folded = unicodedata.normalize("NFC", name).casefold()
        if folded in known:
            same = "comes twice" if known[folded] == name else f"is the same as '{known[folded]}' on some systems"
            raise UserError(f"'{name}' {same}")
        known[folded] = name
    folders = {folded.rpartition("/")[0] for folded in known}
    folders |= {folder[:i] for folder in folders for i, letter in enumerate(folder) if letter == "/"}
    if both := next((name for folded, name in known.items() if folded in folders), ""):
        raise UserError(f"'{both}' is a file and a folder")
