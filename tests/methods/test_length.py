"""The style of this repository: its own methods are short."""

import ast
import importlib.util
import io
import tokenize
from pathlib import Path

import pytest

from fedgrid.cli.reference import own_methods

SIMPLE = ("fedopt", "feddyn", "fedntd", "fedlc", "fedexp", "fedbabu", "apfl", "fedbn")
LIMITS = {"fedprox": 15, "ditto": 35, **dict.fromkeys(SIMPLE, 40)}
EXAMPLES = sorted(Path(__file__).parent.glob("examples/*.py"))


def file_of(name):
    return Path(importlib.util.find_spec(f"fedgrid.methods.{name}").origin)


@pytest.mark.parametrize("file", [*map(file_of, own_methods()), *EXAMPLES], ids=lambda file: file.stem)
def test_lines_of_code(file):
    assert code_lines(file.read_text(encoding="utf-8")) <= LIMITS.get(file.stem, 80)


def code_lines(text):
    """Lines that hold code: no blank lines, comments, docstrings or strings below a field."""
    bare = {
        line
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)
        for line in range(node.lineno, node.end_lineno + 1)
    }
    skipped = (tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER)
    tokens = tokenize.generate_tokens(io.StringIO(text).readline)
    lines = {line for t in tokens if t.type not in skipped for line in range(t.start[0], t.end[0] + 1)}
    return len(lines - bare)
