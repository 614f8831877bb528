"""The answer of a paper's page, in three sentences: what was made again, how well it agrees, and what is missing."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from fedgrid.analysis.papers import cross_paper
from fedgrid.analysis.papers.agreement import text
from fedgrid.analysis.papers.overview import NOT_RUN, OUT_OF_DATE, Overview, agreed, fates
from fedgrid.analysis.prose.phrases import counted, listing
from fedgrid.grid.plan.manifest_model import UNAVAILABLE
from fedgrid.grid.study.model import FULL


def answer(found: Sequence[Overview], papers: Mapping[str, Any]) -> dict[str, str]:
    """The three sentences by what they are about; `papers` are the printed numbers of other papers."""
    return {
        "Regenerated": regenerated(found),
        "Agreement": " ".join([claims(found), orders(found), *beside(found, papers)]),
        "Missing": missing(found),
    }


def regenerated(found: Sequence[Overview]) -> str:
    """How many experiments and cells have results, at which scale, with which seeds, and what is out of date."""
    begun = [one for one in found if one.finished]
    cells = {cell.key for one in found for cell in one.cells}
    finished = {cell.key for one in found for cell in one.finished}
    outdated = sum(one.out_of_date for one in found)
    stale = f"; {outdated} {'is' if outdated == 1 else 'are'} {OUT_OF_DATE}" if outdated else ""
    if not begun:
        return f"None of {counted(len(found), 'experiment')} has results yet{stale}."
    studies = [one.results.study for one in begun if one.results]
    scale = "at full scale" if studies[0].scale == FULL else f"at the scale {studies[0].scale}"
    seeds = sorted({seed for study in studies for seed in study.seeds})
    without = sum(one.results is not None and not one.cells and not one.lacks for one in found)
    rest = f" ({without} more {'needs' if without == 1 else 'need'} no cells)" if without else ""
    return (
        f"{len(begun)} of {counted(len(found), 'experiment')} {'has' if len(begun) == 1 else 'have'} results{rest}: "
        f"{len(finished)} of {counted(len(cells), 'cell')}, {scale}, "
        f"{'seed' if len(seeds) == 1 else 'seeds'} {listing(map(str, seeds))}{stale}."
    )


def claims(found: Iterable[Overview]) -> str:
    """What became of the paper's claims."""
    told = fates(found)
    prose = told.pop("unchecked", 0)
    more = f"; {counted(prose, 'more is prose', 'more are prose')}" if prose else ""
    if not told:
        return "No claim can be checked by a rule" + more + "."
    words = {"holds": ("holds", "hold"), "fails": ("does not hold", "do not hold"), "open": ("cannot be told",) * 2}
    parts = [counted(told[name], *said) for name, said in words.items() if told[name]]
    return f"Of {counted(told.total(), 'claim')} that a rule can check, {listing(parts)}{more}."


def orders(found: Iterable[Overview]) -> str:
    """How far the orders of rows agree."""
    ours, ceiling, columns = agreed(found)
    if not columns:
        return "No column of printed numbers has an order of ours beside it."
    between = (
        f"between two seeds of ours it is {text(ceiling)}"
        if ceiling == ceiling
        else "how far our own seeds agree is not known with one seed"
    )
    every = f"the mean over {counted(columns, 'column')}, each by its pairs of rows"
    over = every if columns > 1 else "on the one column"
    return f"Orders of rows agree with the printed ones by a Kendall τ of {text(ours)}, {over}; {between}."


def beside(found: Iterable[Overview], papers: Mapping[str, Any]) -> list[str]:
    """How far other papers that print the same columns agree with this one."""
    printed = [entry for one in found if one.results for entry in one.results.published]
    table = cross_paper.compared(printed, papers) if printed else cross_paper.compared([], {})
    return [
        f"{name} prints {counted(len(part), 'of these columns', 'of these columns')} too, with a τ of "
        f"{text(part['tau'].median())} to this paper."
        for name, part in table.groupby("other", sort=False)
    ]


def missing(found: Sequence[Overview]) -> str:
    """What of the paper is not there, and of which kind it is."""
    parts = {
        OUT_OF_DATE: [one.id for one in found if one.out_of_date],
        NOT_RUN: [one.id for one in found if one.state == NOT_RUN],
        "cannot be said in a study yet": [one.id for one in found if one.lacks],
    }
    said = [f"{what}: {', '.join(names)}" for what, names in parts.items() if names]
    counts = {
        "need data that are not at hand": of_status(found, UNAVAILABLE),
        "failed": of_status(found, "failed"),
        "diverged": of_status(found, "diverged"),
    }
    said += [f"{counted(number, 'cell')} {what}" for what, number in counts.items() if number]
    if not said:
        return "Nothing."
    return f"{said[0][0].upper()}{'; '.join(said)[1:]}."


def of_status(found: Iterable[Overview], status: str) -> int:
    """How many cells have a status, each once."""
    return len({cell.key for one in found for cell in one.cells if cell.status == status})
