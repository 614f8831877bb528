"""The rows of a study: its methods, one for each value of a list."""

import functools
from dataclasses import dataclass, field

from fedgrid.components import describe
from fedgrid.grid.study.catalog import description
from fedgrid.grid.study.configure import SOURCE, Description, configured, reference_of, settings_of
from fedgrid.grid.study.expansion import expand, fill_label, shown
from fedgrid.grid.study.external import RESULTS, ExternalRow, external_row, is_external
from fedgrid.grid.study.forms import Protocol
from fedgrid.grid.study.model import Configured, MethodRow, Placed, Reading, SearchedRow, Settings
from fedgrid.grid.study.overlay import named_row
from fedgrid.grid.study.search import KEY, Searches
from fedgrid.grid.study.sections import Origin, Section, StudyError, located
from fedgrid.settings import Training, aggregation_problem, averages_missing

RESERVED = ("method", "title", "training", "score", "at", RESULTS, KEY)
"Keys of a method's entry that are not hyperparameters."


class CannotTrain(StudyError):
    """A method that cannot be trained with the study's settings; a notice on families has the `reason` as a clause."""

    def __init__(self, origin: Origin, problem: str, reason: str):
        super().__init__(origin, problem)
        self.origin, self.reason = origin, reason


@dataclass(frozen=True)
class Rows:
    """The rows of a part of a study, and by label the members of families that it cannot train."""

    rows: list[Placed[MethodRow]] = field(default_factory=list)
    external: list[Placed[ExternalRow]] = field(default_factory=list)
    "Rows of external results."
    left_out: dict[str, CannotTrain] = field(default_factory=dict)
    searches: dict[str, SearchedRow] = field(default_factory=dict)
    "By label, the search that chooses the settings of a row; `rows` has that row at the first point of its grid."
    trying: list[str] = field(default_factory=list)
    "Titles of rows whose clients try models on images held out for validation."
    unused: list[str] = field(default_factory=list)
    "A sentence for each setting that is searched and that no row has."

    @property
    def notices(self) -> list[str]:
        """What families leave out, in a sentence for each family and reason, and what is searched for no row."""
        labels: dict[tuple[Origin, str], list[str]] = {}
        for label, error in self.left_out.items():
            labels.setdefault((error.origin, error.reason), []).append(label)
        return [
            f"{origin.label}: '{origin.word}' leaves out {', '.join(left_out)}, {reason}; name them "
            "with settings of their own to have them"
            for (origin, reason), left_out in labels.items()
        ] + self.unused


def method_rows(study: Protocol) -> Rows:
    """The rows of a study, with the training settings that each is run with.

    A member of a family that cannot be trained so is left out; StudyError where the study names it, or has no others.
    """
    parsed = Rows()
    training = settings_of(describe(Training), study.training)
    described = functools.cache(functools.partial(description, "methods"))  # rows may be of the same method
    searches = Searches(study)
    for name, values, entry in _expanded(study.section["methods"]) if study.methods else []:
        label = name + values
        if is_external(entry):
            position = len(parsed.rows) + len(parsed.external)
            parsed.external.append(Placed(external_row(label, entry, position), entry.origin))
            continue
        with located(entry.origins["method"]):
            method = described(reference_of(entry["method"], entry.origins["method"]))
        try:
            make_row = functools.partial(_row, name, values, common=training, about=method, reading=study.report)
            search = searches.of_row(label, entry, method, make_row)
            row = search.points[0][1] if search else make_row(entry)
            parsed.rows.append(Placed(row, entry.origin))
            parsed.trying.extend([row.title] * method["facts"]["held_out"])
            if search:
                parsed.searches[label] = search
        except CannotTrain as error:
            if not entry.origin.word:
                raise
            parsed.left_out[label] = error
    if parsed.left_out and not parsed.rows:
        raise next(iter(parsed.left_out.values()))
    if parsed.external and not parsed.rows:
        raise StudyError(parsed.external[0].origin, "external results need a row beside them that is trained here")
    parsed.unused.extend(searches.unused() if parsed.rows else ())
    return parsed


def _expanded(methods: Section) -> list[tuple[str, str, Section]]:
    """The rows with their names, one for each value of a list; with such a row, what its label and title say of it."""
    expanded = []
    for label, settings in methods.items():
        row = named_row(label, settings, methods.origins[label])
        searched = Section({name: row[name] for name in row if name == KEY}, row.origin, row.origins)
        for entry, taken in expand(row - {KEY}):
            values = "".join(f", {name} = {shown(value)}" for name, value in taken.items())
            if "title" in entry:
                entry = entry | {"title": fill_label(entry["title"], entry, entry.origins["title"])}
            expanded.append((label, values, entry | searched))
    return expanded


def _row(label: str, values: str, entry: Section, common: Settings, about: Description, reading: Reading) -> MethodRow:
    for name in {parameter["name"] for parameter in about["parameters"]}.intersection(RESERVED):
        raise StudyError(entry.origin, f"setting '{name}' clashes with a built-in key; rename it")
    changes = entry.get("training", Section((), entry.origin))
    training = Training(**settings_of(describe(Training), changes, common))
    plain = label == about["name"] or label.endswith(SOURCE)
    title = entry.get("title") or (about["title"] if plain else label) + values
    component = configured(about, entry - RESERVED)
    _check_rates(entry.origin, component, about["facts"], training)
    _check_malicious(entry.origin, label, about["facts"], training)
    score, at = entry.get("score", reading.score), entry.get("at", reading.at)
    return MethodRow(label + values, title, component, training, about["facts"]["work"], score, at, Training(**common))


def _check_rates(origin: Origin, component: Configured, facts: Settings, training: Training) -> None:
    """Raises CannotTrain where steps of plain SGD would take a rate that is meant for Adam or for momentum.

    Also where a rate times another setting is not below the limit that the method states.
    """
    is_plain = training.optimizer == "sgd" and not training.momentum
    configured = "Adam" if training.optimizer == "adam" else f"a momentum of {training.momentum:g}"
    for name in facts["plain_rates"]:
        if component.settings[name] is None and not is_plain:
            of_study = f"the study's rate of {training.lr:g}, which is meant for {configured}"
            raise _unusable_rate(origin, f"plain SGD steps, for which {of_study}, is not usable", name)
    for name, other, limit in facts["product_limits"]:
        rate, factor = component.settings[name], component.settings[other]
        rate = training.lr if rate is None else rate
        if rate * factor >= limit:
            taken = f"{name} = {rate:g} with {other} = {factor:g}"
            raise _unusable_rate(origin, f"{taken}, whose product has to be below {limit:g}", name)


def _unusable_rate(origin: Origin, taken: str, setting: str) -> CannotTrain:
    return CannotTrain(origin, f"takes {taken}; set {setting}", f"which would take {taken}")


def _check_malicious(origin: Origin, label: str, facts: Settings, training: Training) -> None:
    """Raises CannotTrain where the method lacks what the attack or the aggregation needs, StudyError where all do."""
    if problem := aggregation_problem(training):
        raise StudyError(origin, problem)
    problem = averages_missing(training, label)
    if problem and not facts["averages_uploads"]:
        raise CannotTrain(origin, problem, f"since {problem.partition(';')[0]}")
