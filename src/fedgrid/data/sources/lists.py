"""The plain lists in which authors describe their pictures: two words a line."""

from pathlib import Path

from fedgrid.errors import UserError


def pairs(file: Path) -> list[tuple[str, str]]:
    """The two words of every line that is not empty; UserError naming the line that has fewer or more."""
    return [_pair(file, number, line) for number, line in enumerate(text(file).splitlines(), 1) if line.strip()]


def integer(file: Path, word: str) -> int:
    """The number that a word of `file` is; UserError where it is none."""
    try:
        return int(word)
    except ValueError as error:
        raise UserError(f"{file}: expected a number, found '{word}'") from error


def text(file: Path) -> str:
    """The text of a file; UserError where it cannot be read."""
    try:
        return file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(f"{file}: cannot be read ({error})") from error


def _pair(file: Path, number: int, line: str) -> tuple[str, str]:
    fields = line.split()
    if len(fields) != 2:
        raise UserError(f"{file}, line {number}: expected two words, found '{line}'")
    return fields[0], fields[1]
