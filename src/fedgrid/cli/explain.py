"""``fedgrid explain``: from a number of a table to its cells, and what the key of a cell is made of."""

import argparse

from fedgrid.api.explanation import explain as explained
from fedgrid.api.study_file import studies_here
from fedgrid.cli.parsing import CHOICE, command, flag, option, path

SELECTION = (
    "words that identify the number, or parts of them: experiment, row, data set, heterogeneity, seed; or a cell's key"
)
CONFIGFILE = (
    "the study (default: the first of config/study.yaml, the latest runs, config/**/*.yaml that has such a cell)"
)


@command(
    option("selection WORD", SELECTION, nargs="+"),
    flag("--code", "list the modules that make the key, and those that do not"),
    option("--configfile", CONFIGFILE, type=path),
    *CHOICE,
)
def explain(arguments: argparse.Namespace) -> int:
    """The cells behind a number of a table: settings, state, scores and files.

    fedgrid explain FedCoSR pathological
    fedgrid explain fedcosr "seed 0" --configfile config/mnist.yaml
    fedgrid explain 3fa1b2c4 --code
    fedgrid explain --configfile config/papers/fedcosr.yaml table2 FedCoSR CIFAR-10 "Dirichlet 0.1"
    """
    studies = studies_here(arguments.configfile, arguments.scale, arguments.only)
    print("\n".join(explained(studies, arguments.selection, arguments.code)))
    return 0
