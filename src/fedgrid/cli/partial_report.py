"""``fedgrid report``: tables, figures and report of the cells that are finished, at any time."""

import argparse

from fedgrid.cli.parsing import with_examples
from fedgrid.cli.studies import add_configfile, read_study
from fedgrid.files import check_writable
from fedgrid.grid import drawing, manifest
from fedgrid.grid.study import Study
from fedgrid.run import states

EXAMPLES = "fedgrid report\nfedgrid report --configfile config/mnist.yaml"


def add_commands(commands: argparse._SubParsersAction) -> None:
    text = "tables, figures and report of the cells that are finished, also while a run is going or after it failed"
    report = with_examples(commands, "report", text, EXAMPLES)
    add_configfile(report)
    # the end of a run gives the study as it was checked, which lies elsewhere than the file that the user knows
    report.add_argument("--named", help=argparse.SUPPRESS)
    report.set_defaults(call=_report)


def _report(arguments: argparse.Namespace) -> int:
    from fedgrid.analysis import partial  # it imports pandas and matplotlib, which no other command needs

    study = read_study(arguments.configfile)
    check_writable(study.folder, "results")
    configfile = arguments.named or str(arguments.configfile)
    said = partial.write(manifest.content(study), _absent(study), drawing.figures(study), study.partial, configfile)
    print(f"{study.partial}/report.html: {said}")
    return 0


def _absent(study: Study) -> dict[str, dict[str, str]]:
    """Cells without results, by key: the status of each, and of a failed one the reason."""
    found = {key: state for key, state in states.read(study).items() if state.name not in ("done", "diverged")}
    reasons = {key: " ".join(state.remark.split()) for key, state in found.items() if state.name == "failed"}
    return {key: {"status": state.name, "reason": reasons.get(key, "")} for key, state in found.items()}
