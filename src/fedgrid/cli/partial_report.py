"""``fedgrid report``: tables, figures and report of the cells that are finished, at any time."""

import argparse

from fedgrid.cli.parsing import Commands, with_examples
from fedgrid.cli.studies import add_configfile, study_of

EXAMPLES = "fedgrid report\nfedgrid report --configfile config/mnist.yaml"


def add_commands(commands: Commands) -> None:
    """Adds `fedgrid report` to the command line."""
    text = "tables, figures and report of the cells that are finished, also while a run is going or after it failed"
    report = with_examples(commands, "report", text, EXAMPLES)
    add_configfile(report)
    report.set_defaults(call=_report)


def _report(arguments: argparse.Namespace) -> int:
    from fedgrid.analysis.pages import partial

    print(*partial.report_of(study_of(arguments), str(arguments.configfile)), sep="\n")
    return 0
