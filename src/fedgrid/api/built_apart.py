"""A final model that needs code in files of the user's, built by a process of its own.

Run as ``python -m fedgrid.api.built_apart MODELS CHOICE OUT``; CHOICE is the JSON of a `Choice`.
"""

import json
from argparse import ArgumentParser
from collections.abc import Sequence
from pathlib import Path

import torch

from fedgrid.api.models import Choice, StoredModels
from fedgrid.command import run
from fedgrid.jobs.apart import job
from fedgrid.jobs.signals import end_with_signals


def build(models: Path, choice: str, out: Path) -> None:
    """Writes a model of the file `models` as torch pickles it, for the process that asked for it."""
    torch.save(StoredModels.of(models).built(Choice(**json.loads(choice))), out)


@job("fedgrid.api.built_apart")
def main(argv: Sequence[str] | None = None) -> int:
    """Command line: MODELS CHOICE OUT."""
    end_with_signals()
    parser = ArgumentParser(prog="python -m fedgrid.api.built_apart", description="Build a final model.")
    parser.add_argument("models", type=Path, metavar="MODELS", help="the file of a cell's models")
    parser.add_argument("choice", metavar="CHOICE", help="which of them, as JSON")
    parser.add_argument("out", type=Path, metavar="OUT", help="where the model is written")
    parser.set_defaults(action=build)
    return run(parser, argv)


if __name__ == "__main__":
    raise SystemExit(main())
