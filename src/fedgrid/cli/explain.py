"""``fedgrid explain``: from a number of a table to its cells, and what the key of a cell is made of."""

import argparse

from fedgrid.api.explanation import explain_cells, explain_unplanned_results, find_unplanned_results
from fedgrid.api.finding import check_alike, matching_cells, no_cell
from fedgrid.cli.parsing import Commands, path, with_examples
from fedgrid.cli.searching import studies_here
from fedgrid.cli.studies import add_choice
from fedgrid.errors import UserError
from fedgrid.grid.plan.planned_study import Study

EXAMPLES = """
fedgrid explain FedCoSR pathological
fedgrid explain fedcosr "seed 0" --configfile config/mnist.yaml
fedgrid explain 3fa1b2c4 --code
fedgrid explain --configfile config/papers/fedcosr.yaml table2 FedCoSR CIFAR-10 "Dirichlet 0.1"
"""


def add_commands(commands: Commands) -> None:
    """Adds `fedgrid explain` to the command line."""
    text = "the cells behind a number of a table: settings, state, scores and files"
    explain = with_examples(commands, "explain", text, EXAMPLES)
    text = (
        "words that identify the number, or parts of them: experiment, row, data set, heterogeneity, seed; or a cell's "
        "key"
    )
    explain.add_argument("selection", nargs="+", metavar="WORD", help=text)
    explain.add_argument(
        "--code", action="store_true", help="list the modules that make the key, and those that do not"
    )
    text = "the study (default: the first of config/study.yaml, the latest runs, config/**/*.yaml that has such a cell)"
    explain.add_argument("--configfile", type=path, help=text)
    add_choice(explain)
    explain.set_defaults(call=_explain)


def _explain(arguments: argparse.Namespace) -> int:
    selection, searched = arguments.selection, list[Study]()
    for study_name, study in studies_here(arguments):
        if cells := matching_cells(study, selection):
            check_alike(study_name, selection, "explain", cells)
            print("\n".join(explain_cells(study, selection, cells, study_name if searched else "", arguments.code)))
            return 0
        searched.append(study)
    if not searched:
        raise UserError("explain: there is no study in config/; name one with --configfile")
    earlier_results = find_unplanned_results(searched[0].store, selection)
    if not earlier_results:
        raise no_cell(searched, selection, "explain")
    print("\n".join(explain_unplanned_results(earlier_results, searched)))
    return 0
