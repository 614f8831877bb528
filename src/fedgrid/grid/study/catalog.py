"""Descriptions of components without importing them twice.

Describing a method means importing torch, which takes seconds; a workflow reads its study at every start. So
descriptions are kept as JSON in the user's cache, under the fingerprint of the files that they describe.
"""

import functools
import json
import os
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

from fedgrid.components import describe
from fedgrid.errors import PREFIX, UserError, complain
from fedgrid.files import cache, read_json, write_json
from fedgrid.grid.study.audit import Watch
from fedgrid.grid.study.fingerprint import check_files, fingerprint_of_text, uncovered
from fedgrid.grid.study.overrides import hidden_engine_names, misfit, unfit_overrides
from fedgrid.grid.study.patches import refuse_changes
from fedgrid.grid.study.purity import impure
from fedgrid.loading import KINDS, load, locate

CHECKS = "fedgrid.grid.study.catalog"
"The module whose checks a description of a file outside the package has passed."
PATIENCE = 120
"Seconds that a component's file may take to be imported, torch included."


def description(kind: str, reference: str) -> dict[str, Any]:
    """`components.describe` of a component, with its name, `reference`, module and (outside the package) file."""
    name, module, file = locate(kind, reference)
    code = _fingerprint(kind, reference, module, file)
    cached = cache("descriptions") / kind / f"{name}-{code}.json"
    try:
        facts = read_json(cached)
    except UserError:
        facts = _described_apart(kind, reference) if file else describe(load(kind, reference))
        with suppress(UserError):  # it only saves time, and others' results may be read where nothing can be written
            write_json(cached, facts)
    return facts | {"name": name, "reference": reference, "module": module, "file": str(file) if file else None}


known_description = functools.cache(description)
"As `description`, looked up once in a process: for what goes through many cells of components already planned."


def _fingerprint(kind: str, reference: str, module: str, file: Path | None) -> str:
    """Fingerprint of the files that a description is made from.

    UserError for a file that is no Python, or whose source shows that it is refused.
    """
    what = f"{KINDS[kind]} '{reference}'"
    try:
        code = fingerprint_of_text(module, file, ["fedgrid.components", *([CHECKS] if file else [])])
        flaws = [*uncovered(module, file), *impure(file, kind)] if file else []
        flaws += hidden_engine_names(file) if file and kind == "methods" else []
    except SyntaxError as error:
        where = f"{error.filename}, line {error.lineno}"
        raise UserError(f"{what} cannot be read: {error.msg} ({where})") from error
    except (ValueError, RecursionError, MemoryError) as error:
        raise UserError(f"{what} cannot be read: {error}") from error
    if flaws:
        raise UserError(f"{what}: {flaws[0]}")
    return code


def _described_apart(kind: str, reference: str) -> dict[str, Any]:
    """Describes a file of the user's in a process of its own: what it does when it is imported does no harm here.

    Two files may each have their own ``helper.py`` beside them. Nothing is written, not even their bytecode.
    """
    what = f"{KINDS[kind]} '{reference}'"
    command = [sys.executable, "-P", "-B", "-m", "fedgrid.grid.study.catalog", kind, reference]
    apart: dict[str, Any] = {"stdin": subprocess.DEVNULL, "capture_output": True, "text": True, "errors": "replace"}
    try:
        run = subprocess.run(command, **apart, timeout=PATIENCE)
    except subprocess.TimeoutExpired as error:
        raise UserError(f"{what}: importing takes more than {PATIENCE} seconds") from error
    lines = [line for line in run.stderr.splitlines() if line.startswith(PREFIX)]
    if lines:
        raise UserError(lines[-1].removeprefix(PREFIX))
    if run.returncode or not run.stdout:
        *_, last = run.stderr.splitlines() or [f"exit code {run.returncode}"]
        raise UserError(f"{what}: importing ended the process ({last})")
    described: dict[str, Any] = json.loads(run.stdout)
    return described


def _described_here(kind: str, reference: str) -> dict[str, Any]:
    _, module, file = locate(kind, reference)
    assert file is not None  # the package's own components are described where they are asked for
    what = f"{KINDS[kind]} '{reference}'"
    with Watch(module, file, kind) as watch:
        component = load(kind, reference)
    refuse_changes(what, watch.shared.switches())
    check_files(component, module, file)
    if flaw := misfit(component, kind) or next(iter(unfit_overrides(component, kind)), ""):
        raise UserError(f"{what}: {flaw}")
    try:
        described = describe(component)
    except UserError as error:
        raise UserError(f"{what}: {error}") from error
    except Exception as error:  # of what the class states, such as the number of images
        raise UserError(f"{what}: its class states something wrong ({type(error).__name__}: {error})") from error
    for name in {*described["facts"].get("named", ())} - {parameter["name"] for parameter in described["parameters"]}:
        raise UserError(f"{what}: `named` lists '{name}', which is not one of its settings")
    return described


if __name__ == "__main__":
    with os.fdopen(os.dup(sys.stdout.fileno()), "w", encoding="utf-8") as answer:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # what the file prints is not part of the answer
        try:
            json.dump(_described_here(*sys.argv[1:]), answer)
        except UserError as error:
            sys.exit(complain(error))
