"""Points out cells whose accuracy stands still: models that have died look like poor ones in a table."""

from fedgrid.analysis.prose.phrases import listing
from fedgrid.analysis.scores.points import client_series
from fedgrid.analysis.scores.results import CELL, Results
from fedgrid.jobs.standstill import unchanged_since


def standing_still(results: Results) -> list[str]:
    """A sentence on the cells whose mean accuracy over clients is the same in many rounds, to the last one."""
    means = client_series(results).groupby([*CELL, "round"], sort=False, observed=True)["accuracy"].mean()
    still: dict[tuple[str, str, str, int], list[str]] = {}
    for (label, data, heterogeneity, seed), of_cell in means.groupby(level=CELL, sort=False, observed=True):
        since = unchanged_since(of_cell.droplevel(CELL).to_dict())
        if since is not None:
            still.setdefault((label, data, heterogeneity, since), []).append(str(seed))
    cells = [
        f"{results.names[label]} on {', '.join(results.titles(data, heterogeneity))}, "
        f"{'seed' if len(seeds) == 1 else 'seeds'} {listing(seeds)}, since round {since}"
        for (label, data, heterogeneity, since), seeds in still.items()
    ]
    if not cells:
        return []
    why = "as where units have died and a model predicts one class alone"
    return [f"Accuracy stands still to the last bit, {why}: {'; '.join(cells)}."]
