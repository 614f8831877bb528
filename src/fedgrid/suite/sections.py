"""Where the checks send their readers: sections of docs/writing-a-method.md, and docstrings of base classes."""

from fedgrid import shipped

PAGE = shipped.folder("docs") / "writing-a-method.md"
START, CALLS, STATE, CLIENTS = "Writing a method", "What the engine calls", "State", "Losses and steps"
KEY, IDENTITIES, STATED = "What its key covers", "Identities", "What tables and pages show of it"
FEDERATION = "What `fed` can do"
SEE = {
    section: f"{PAGE}, section “{section}”"
    for section in (START, CALLS, STATE, CLIENTS, KEY, IDENTITIES, STATED, FEDERATION)
}
MODEL = "python -c 'from fedgrid.models.base import Model; help(Model)'"
PARTITION = "python -c 'from fedgrid.partition.base import SampledPartition; help(SampledPartition)'"
DATA = "python -c 'from fedgrid.data.base import DataSet; help(DataSet)'"
