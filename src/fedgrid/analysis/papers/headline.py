"""The headline of a paper's page in three sentences: what was made again, how well it agrees, and what is missing."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from fedgrid.analysis.papers import cross_paper
from fedgrid.analysis.papers.agreement import by_pairs, text
from fedgrid.analysis.papers.claims import CONFIRMED, INCONCLUSIVE, REFUTED, UNCHECKED
from fedgrid.analysis.papers.overview import NOT_RUN, OUT_OF_DATE, Overview, agreed, outcomes
from fedgrid.analysis.prose.phrases import listing
from fedgrid.analysis.scores.cells import WAITING
from fedgrid.grid.plan.manifest_model import UNAVAILABLE
from fedgrid.grid.study.model import FULL
from fedgrid.quantities import counted


def headline(overviews: Sequence[Overview], papers: Mapping[str, Any]) -> dict[str, str]:
    """The three sentences by what they are about; `papers` are the printed numbers of other papers."""
    return {
        "Regenerated": regenerated(overviews),
        "Agreement": " ".join([claims(overviews), orders(overviews), *beside(overviews, papers)]),
        "Missing": missing(overviews),
    }


def regenerated(overviews: Sequence[Overview]) -> str:
    """How many experiments and cells have results, at which scale, with which seeds, and what is out of date."""
    begun = [overview for overview in overviews if overview.finished]
    cells = {cell.key for overview in overviews for cell in overview.cells}
    finished = {cell.key for overview in overviews for cell in overview.finished}
    outdated = sum(overview.out_of_date for overview in overviews)
    stale = f"; {outdated} {'is' if outdated == 1 else 'are'} {OUT_OF_DATE}" if outdated else ""
    if not begun:
        return f"None of {counted(len(overviews), 'experiment')} has results yet{stale}."
    studies = [overview.results.study for overview in begun if overview.results]
    scale = "at full scale" if studies[0].scale == FULL else f"at the scale {studies[0].scale}"
    seeds = sorted({seed for study in studies for seed in study.seeds})
    without = sum(overview.results is not None and not overview.cells and not overview.lacks for overview in overviews)
    needing_none = f" ({without} more {'needs' if without == 1 else 'need'} no cells)" if without else ""
    return (
        f"{len(begun)} of {counted(len(overviews), 'experiment')} {'has' if len(begun) == 1 else 'have'} results"
        f"{needing_none}: "
        f"{len(finished)} of {counted(len(cells), 'cell')}, {scale}, "
        f"{'seed' if len(seeds) == 1 else 'seeds'} {listing(map(str, seeds))}{stale}."
    )


def claims(overviews: Sequence[Overview]) -> str:
    """How many of the paper's claims have which verdict."""
    counts = outcomes(overviews)
    total = counts.total()
    if not total and any(overview.results is None for overview in overviews):
        return "No claim is checked yet."
    if not total:
        return "The paper makes no claims about these experiments."
    checked = total - counts[UNCHECKED]
    of_all = f"{checked} of the paper’s {counted(total, 'claim')} can be checked here"
    if not checked:
        return f"{of_all}."
    return f"{of_all}: {listing(f'{counts[name]} {name}' for name in (CONFIRMED, REFUTED, INCONCLUSIVE))}."


def orders(overviews: Sequence[Overview]) -> str:
    """Agreement between the orders of rows."""
    order = agreed(overviews)
    if not order.columns:
        return "No column of printed numbers can be compared with an order of ours."
    every = f"averaged over {counted(order.columns, 'column')} weighted by their pairs of rows"
    over = every if order.columns > 1 else "in the only column"
    agrees = "Our order of rows by accuracy agrees with the printed one"
    sentence = f"{agrees} with a Kendall τ of {text(order.tau)}, {over}"
    if not order.columns_of_several:
        return f"{sentence}; how far our own seeds agree is not known with one seed."
    if order.columns_of_several == order.columns:
        return f"{sentence}; between one seed of ours and the others it is {text(order.between_seeds)}."
    several = counted(order.columns_of_several, "column")
    return (
        f"{sentence}; over the {several} with several seeds it is {text(order.tau_of_several)}, and between one seed "
        f"of ours and the others {text(order.between_seeds)}."
    )


def beside(overviews: Iterable[Overview], papers: Mapping[str, Any]) -> list[str]:
    """How far other papers that print the same columns agree with this one."""
    printed = [entry for overview in overviews if overview.results for entry in overview.results.published]
    table = cross_paper.agreement_with_papers(printed, papers if printed else {})
    return [
        f"{name} also prints {counted(len(part), 'of these columns', 'of these columns')}; its τ with this paper is "
        f"{text(by_pairs(part, 'tau'))}{', averaged over them' * (len(part) > 1)}."
        for name, part in table.groupby("other", sort=False)
    ]


def missing(overviews: Sequence[Overview]) -> str:
    """Sentences on missing parts of the paper, by reason."""
    parts = {
        OUT_OF_DATE: [overview.id for overview in overviews if overview.out_of_date],
        NOT_RUN: [overview.id for overview in overviews if overview.state == NOT_RUN],
        "cannot be expressed in a study yet": [overview.id for overview in overviews if overview.lacks],
    }
    sentences = [f"{what}: {', '.join(names)}" for what, names in parts.items() if names]
    statuses = {
        "need data that are not available": [UNAVAILABLE],
        "failed": ["failed"],
        "diverged": ["diverged"],
        "not finished": WAITING,
    }
    status_of = {cell.key: cell.status for overview in overviews for cell in overview.cells}
    numbers = {what: sum(status in those for status in status_of.values()) for what, those in statuses.items()}
    sentences += [f"{counted(number, 'cell')} {what}" for what, number in numbers.items() if number]
    if not sentences:
        return "Nothing."
    return f"{sentences[0][0].upper()}{'; '.join(sentences)[1:]}."
