"""What is checked: a component of the package by its name, or the one that a file defines, and of which kind it is."""

from pathlib import Path

from fedgrid.components import Component
from fedgrid.errors import UserError, nearest
from fedgrid.grid.study.overrides import hidden_engine_names, misfit
from fedgrid.grid.study.patches import Shared, import_shared, refuse_changes
from fedgrid.loading import KINDS, OUTSIDE, load, load_file, names

DERIVE = (
    "derive it from fedgrid.methods.Method, fedgrid.models.base.Model, fedgrid.partition.base.SampledPartition or "
    "fedgrid.data.base.DataSet"
)


def subject(reference: str) -> tuple[str, type[Component]]:
    """Kind (as in `fedgrid.loading.KINDS`) and class of a component; UserError where there is none."""
    if not reference.endswith(".py"):
        kinds = {name: kind for kind in KINDS for name in names(kind)}
        if kind := kinds.get(reference):
            return kind, load(kind, reference)
        file = Path(f"{reference}.py")
        known = f"{nearest(reference, kinds)}; a file's name ends with .py"
        hint = f"did you mean '{file}'?" if file.is_file() else known
        raise UserError(f"no component is called '{reference}'; {hint}")
    cls = _class_in(reference)
    for kind in KINDS:
        if not misfit(cls, kind):
            return kind, cls
    raise UserError(f"'{reference}': {cls.__name__} is neither a {', nor a '.join(KINDS.values())}; {DERIVE}")


def _class_in(reference: str) -> type[Component]:
    file = Path(reference)
    import_shared(f"{OUTSIDE}{file.stem}", file)
    shared = Shared()
    try:
        component = load_file(reference)
    except UserError as error:
        # raised while the class was made, where its name alone is known and not yet the line of what is wrong in it
        flaws = hidden_engine_names(file) if isinstance(error.__cause__, UserError) else []
        if flaws:
            raise UserError(flaws[0]) from error
        raise
    refuse_changes(f"'{reference}'", shared.changes())
    return component
