"""What the source of every method shows: it holds nothing that belongs to the engine, and says what it is."""

import ast
import inspect
import io
import re
import tokenize
from collections.abc import Mapping
from pathlib import Path

from fedgrid.engine.federation.method import SCORES
from fedgrid.grid.study.overrides import unfit_overrides
from fedgrid.grid.study.purity import impure
from fedgrid.suite import simulations
from fedgrid.suite.expectations import CALLS, CLIENTS, START, Unmet, check, expect

DEVICE = "all tensors are where they have to be; for another type, use x.double(), x.float() or x.type_as(y)"
RANDOM = "use fed.random(purpose), a NumPy generator, in a round, and at.uniform(purpose, like=x) in a loss"
BATCHES = "fed.train, fed.iterate, fed.measure and fed.collect go through a client's batches"
FORBIDDEN: Mapping[str, str] = {
    r"\.to\(": DEVICE,
    r"\.cuda\(": DEVICE,
    r"manual_seed": RANDOM,
    r"torch\.rand": RANDOM,
    r"\b(np|numpy)\.random\.": RANDOM,
    r"(?<![\w.])random\.": RANDOM,
    r"Generator": RANDOM,
    r"\bopen\(": "a method opens no file; section “What its key covers” says how it has data in its folder",
    r"(?<!self)\.step\(": "fed.train takes the steps of the study's optimiser; fed.iterate takes steps of your own",
    r"\.backward\(": "fed.train takes the gradients of a loss; in a step or a round use torch.func.grad",
    r"DataLoader": BATCHES,
    r"\bbatches\(": BATCHES,
}
"Patterns of what belongs to the engine, each with what to use in its place."
MISSING: Mapping[str, str] = {
    "source": "source = 'Authors, Venue Year'",
    "family": "family = 'one global model', what kind of method it is",
    "score": f"score = one of {', '.join(map(repr, SCORES))}, the point of a round at which it is scored",
    "shares": "shares = 'θ', what travels, in words",
    "work": "work = 'E', the passes of a client over its images in a round",
}
"Facts that every method states, each as it is written."


def file_of(method_name: str) -> Path:
    """The file of a method."""
    return Path(inspect.getfile(simulations.method_class(method_name)))


@check("its class states what it is", START)
def test_it_says_what_it_is(method_name: str) -> None:
    cls, file = simulations.method_class(method_name), file_of(method_name)
    missing = [text for name, text in MISSING.items() if not getattr(cls, name)]
    expect(not missing, f"{file}: the class {cls.__name__} lacks {'; '.join(missing)}")
    documented = bool(ast.get_docstring(ast.parse(file.read_text(encoding="utf-8"))))
    expect(documented, f'{file}: the file has to begin with a docstring, """Title: the idea. Authors, Venue Year."""')


@check("its numbers are settings", START)
def test_its_numbers_are_settings(method_name: str) -> None:
    """A number without a type is the class's own, which no study, no key and no page knows."""
    cls = simulations.method_class(method_name)
    numbers = [name for name, value in vars(cls).items() if name.islower() and type(value) in (int, float)]
    bare = [name for name in numbers if not name.startswith("_") and name not in inspect.get_annotations(cls)]
    written = "; ".join(f"{name}: {type(vars(cls)[name]).__name__} = hp({vars(cls)[name]!r})" for name in bare)
    expect(not bare, f"{file_of(method_name)}: no study can set {', '.join(bare)}; write {written}")


@check("nothing in it belongs to the engine", START)
def test_it_leaves_to_the_engine_what_is_the_engines(method_name: str) -> None:
    """No loop over batches, no optimiser step, no device, no random generator, no file."""
    file = file_of(method_name)
    for line, code in code_by_line(file.read_text(encoding="utf-8")).items():
        for pattern, instead in FORBIDDEN.items():
            if match := re.search(pattern, code):
                raise Unmet(f"{file}, line {line} has '{match[0]}', which belongs to the engine; {instead}")


def code_by_line(text: str) -> dict[int, str]:
    """The code of each line, without comments, strings and spaces."""
    lines: dict[int, str] = {}
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type in (tokenize.NAME, tokenize.OP, tokenize.NUMBER):
            before = lines.get(token.start[0], "")
            between = " " if before[-1:].isidentifier() and token.type == tokenize.NAME else ""
            lines[token.start[0]] = before + between + token.string
    return lines


@check("its own names hide no function that the engine calls", CALLS)
def test_its_names_hide_nothing(method_name: str) -> None:
    flaws = unfit_overrides(simulations.method_class(method_name))
    expect(not flaws, "; ".join(flaws))


@check("its losses read no value of a tensor", CLIENTS)
def test_its_losses_are_pure(method_name: str) -> None:
    flaws = impure(file_of(method_name))
    expect(not flaws, "; ".join(flaws))
