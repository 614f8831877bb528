"""Where the checks send their readers: sections of docs/writing-a-method.md, and docstrings of base classes."""

from fedgrid import shipped


def _section(title: str) -> str:
    return f"{shipped.folder('docs') / 'writing-a-method.md'}, section “{title}”"


START, CALLS, STATE, CLIENTS, KEY, IDENTITIES, STATED = map(
    _section,
    (
        *("Writing a method", "What the engine calls", "State", "Losses and steps", "What its key covers"),
        *("Identities", "What tables and pages show of it"),
    ),
)
MODEL = "python -c 'from fedgrid.models.base import Model; help(Model)'"
PARTITION = "python -c 'from fedgrid.partition.base import SampledPartition; help(SampledPartition)'"
DATA = "python -c 'from fedgrid.data.base import DataSet; help(DataSet)'"
