"""docs/reproduction.md, made from the tables of a kept run: every number and verdict in it is read from them.

python -m benchmarks.reproduction    writes docs/reproduction.md and its pictures
"""

import argparse
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pandas as pd
import yaml

from benchmarks import papers
from benchmarks import reproduction_pictures as pictures
from benchmarks.markdown import table as markdown
from benchmarks.templates import rendered
from fedgrid.analysis.papers.claim_scores import PHRASES
from fedgrid.analysis.papers.claims import (
    CONFIRMED,
    FEW_SEEDS,
    INCONCLUSIVE,
    MISSING,
    REFUTED,
    SMALL,
    TOO_EARLY,
    UNCHECKED,
)
from fedgrid.analysis.papers.published import letters
from fedgrid.analysis.prose.phrases import listing, ordinal
from fedgrid.analysis.scores.comparisons import FEWEST_SEEDS
from fedgrid.analysis.tables.common.pivot import AVERAGED
from fedgrid.quantities import counted

RUN, LONG = (pictures.RUNS / scale for scale in pictures.SCALES)
PLACE = ["folder", "row", "data", "heterogeneity", "domain", "metric"]
OURS = ["ours", "ours_std_seeds"]
OUT = Path("docs/reproduction.md")
TITLES = {"fedcosr": "FedCoSR", "fedcrl": "FedCRL", "fedccl": "FedCCL", "fedssc": "FedSSC", "fedsac": "FedSaC"}
SHARED = "fedcrl"
"""The paper whose cells, but for its own row, are all FedCoSR's."""
AT_LENGTH = {
    "fedcosr": (
        "At scale `long` there are the paper's images and pixels, over 150 rounds; how many the paper has is not\n"
        "stated, and 500 is our assumption. A number without ± has one seed. Accuracy in %:"
    ),
    "fedccl": (
        "At scale `long`, `table6-ablation` has the paper's images, rounds and steps on Fashion-MNIST; its row\n"
        "without signals is FedAvg. A number without ± has one seed. Accuracy in %:"
    ),
    "fedsac": (
        "At scale `long`, `table1` has the paper's images, rounds and steps, and `table5-large-scale` the images of\n"
        "`small` (a fifth, 16×16 pixels) over 120 rounds of 20 steps. A number without ± has one seed. Accuracy in %:"
    ),
}
"""What scale long is, by paper."""
TAUS = {
    "tau": "τ to the printed order",
    "tau_of_several": "the same, with three seeds",
    "between_seeds": "τ between our seeds",
}
VERDICTS = (CONFIRMED, REFUTED, INCONCLUSIVE, UNCHECKED)
REASONS = {
    FEW_SEEDS: ("has fewer than three seeds", "have fewer than three seeds"),
    MISSING: ("lacks results", "lack results"),
    SMALL: ("has differences too small for its seeds", "have differences too small for their seeds"),
    TOO_EARLY: ("needs longer training", "need longer training"),
}
TEMPLATE = Path(__file__).with_name("reproduction.md.j2")
ABOUT = Path(__file__).with_suffix(".yaml")
"""By paper: the claim that stands for it, what is open, and why numbers may differ."""
VERBS = {CONFIRMED: "confirmed", REFUTED: "refuted", INCONCLUSIVE: "open"}
"""Verdict → its word for columns."""
FEW = 1
"""Columns of a claim whose numbers are shown."""
WITHOUT_NUMBERS = ("The paper's own numbers", "not part of this run")
"""What parts of a claim's numbers begin with that compare nothing of ours."""
DIFFERENCE = re.compile(
    r"(?P<where>[^:]+): [^:]+?, (?P<other>[^:]+?) [\d.]+: (?P<sign>[+−])(?P<points>[\d.]+) points "
    r"\((?:95 % CI (?P<interval>[^,)]+), )?(?P<seeds>\d+ seeds?)\)"
)
"""What begins the numbers of a column in which two rows are compared."""
CONTRADICTED = ", where the paper's own numbers violate the claim, too"
"""Of a difference that decides, in a column in which print contradicts itself."""
SIDE = {"+": "above", "−": "below"}
DECIDING = re.compile(r", the deciding one of \d+ comparisons")


def page(run: Path) -> str:
    """The text of the page."""
    claims = claims_of(run)
    sections = ["\n".join(of_paper(paper, claims[claims["paper"] == paper])) for paper in TITLES]
    confirmed = claims[claims["verdict"] == CONFIRMED]
    of_bytes = confirmed["rule"].str.startswith(f"the {PHRASES['bytes']}")
    numbers = distances(run) | {"confirmed": len(confirmed), "of_bytes": int(of_bytes.sum())}
    parts = {"answers": answers(claims), "overview": overview(run, claims), "papers": "\n".join(sections)}
    return rendered(TEMPLATE, **parts, **numbers)


def distances(run: Path) -> dict[str, int | float]:
    """Of all printed accuracies that were run: their number, how many have one seed, and how far ours are from them.

    FedCRL's are not counted, nearly all of whose cells are FedCoSR's, nor means over rows.
    """
    printed = papers.read(run, "printed")
    counted_once = (printed["paper"] != SHARED) & (printed["row"] != AVERAGED)
    compared = printed[(printed["metric"] == "accuracy") & printed["difference"].notna() & counted_once]
    differences = compared["difference"]
    return {
        "compared": len(compared),
        "one_seed": int((compared["seeds"] == 1).sum()),
        "below": int((differences < 0).sum()),
        "median": abs(differences.median()),
    }


def answers(claims: pd.DataFrame) -> str:
    """A line a paper: what it claims in one sentence, what became of that at both scales, and what is open."""
    at_length = claims_of(LONG)
    rows = []
    for paper, title in TITLES.items():
        said = about(paper)
        of_both = [
            table[(table["paper"] == paper) & (table["says"] == said["headline"])] for table in (at_length, claims)
        ]
        rows.append([f"[{title}](#{paper})", said["headline"], *map(answer, of_both), said["open"]])
    return markdown(["", "it claims", "our longest runs, with all images", "at small scale", "open"], rows) + "\n"


def answer(claims: pd.DataFrame) -> str:
    """The verdict on a claim and the difference that decided, of two rows; a dash where it was not run."""
    for claim in claims.to_dict("records"):
        if found := DIFFERENCE.match("; ".join(deciding(claim))):
            where, other, sign, points, interval, seeds = found.groups()
            columns = in_columns(claim) if claim["verdict"] == REFUTED else ""
            limits = f" ({interval})" if interval else ""
            difference = f"{points} points {SIDE[sign]} {other}{limits} on {where} ({seeds})"
            broken = CONTRADICTED if where in claim["contradicted"].split("; ") else ""
            return f"**{VERBS[claim['verdict']]}**{columns}: {difference}{broken}"
    return "–"


def overview(run: Path, claims: pd.DataFrame) -> str:
    """Counts of verdicts and agreement by paper."""
    agreement = papers.agreement(run)
    rows = []
    for paper, title in TITLES.items():
        counts = claims[claims["paper"] == paper]["verdict"].value_counts()
        taus = [agreement[name].get(paper, float("nan")) for name in TAUS]
        shown = ["–" if tau != tau else f"{tau:.2f}" for tau in taus]
        rows.append([title, *(counts.get(verdict, 0) for verdict in VERDICTS), *shown])
    return markdown(["", *VERDICTS, *TAUS.values()], rows) + "\n"


def of_paper(paper: str, claims: pd.DataFrame) -> Iterator[str]:
    """The section of a paper."""
    yield f"## {TITLES[paper]}\n"
    if paper in pictures.COLUMNS:
        title = pictures.COLUMNS[paper].title
        yield f"![{title}: printed accuracies beside ours](images/reproduction/{paper}.svg)\n"
        yield from leaders(paper)
    if (LONG / paper).is_dir():
        yield f"{AT_LENGTH[paper]}\n\n{at_length(paper)}\n"
        tested = claims_of(LONG).query("paper == @paper")
        yield from listed("Confirmed at scale long", tested[tested["verdict"] == CONFIRMED])
        yield from listed("Refuted at scale long", tested[tested["verdict"] == REFUTED])
        yield from listed("Tested at scale long, and open", tested[tested["why"] == SMALL])
    where = " at scale small" if (LONG / paper).is_dir() else ""
    for verdict in (CONFIRMED, REFUTED):
        yield from listed(f"{verdict.capitalize()}{where}", claims[claims["verdict"] == verdict])
    open_claims = claims[claims["verdict"] == INCONCLUSIVE]
    if len(open_claims):
        reasons = [counted(number, *REASONS[why]) for why, number in open_claims["why"].value_counts().items()]
        yield f"**Inconclusive{where}:** {counted(len(open_claims), 'claim')}; {listing(reasons)}.\n"
    violated = claims[claims["contradicted"] != ""]
    if len(violated):
        yield "**Violated by the paper's own numbers:**\n"
        yield from (
            f"* {one['says']} ({one['experiment']}: {one['contradicted']})" for one in violated.to_dict("records")
        )
        yield ""
    yield "**Why numbers may differ:**\n"
    yield from (f"* {reason}" for reason in differences(paper))
    yield ""


def claims_of(run: Path) -> pd.DataFrame:
    """The claims of all papers of a kept run, with empty texts for what is missing."""
    return papers.read(run, "claims").astype("object").fillna("")


def listed(title: str, claims: pd.DataFrame) -> Iterator[str]:
    """The claims under a title, each with the numbers that decided; nothing where there are none."""
    if len(claims):
        yield f"**{title}:**\n"
        yield from (f"* {sentence(entry)}" for entry in claims.to_dict("records"))
        yield ""


def leaders(paper: str) -> Iterator[str]:
    """Who leads the pictured column in print and at each scale, and the paper's own method in it and in all others."""
    numbers, own, column = pictures.numbers(paper), TITLES[paper], pictures.COLUMNS[paper]
    for name in ("printed", *pictures.SCALES):
        if name in numbers and numbers[name].notna().any():
            where = "In print" if name == "printed" else f"At scale {name}"
            tested = "" if name == "printed" else significance(paper, name)
            leader = lead(numbers[name].dropna(), own, tested)
            yield f"* **{where}**, on {column.data} ({column.heterogeneity}), {leader}."
    ranks = places(pd.read_csv(RUN / paper / "printed.csv"), column.experiment, own)
    where = f"In all {len(ranks)} columns** of {column.source}"
    yield f"* **{where}, at scale small, {own} is {listing(map(ordinal, ranks))}."
    yield ""


def places(printed: pd.DataFrame, experiment: str, own: str) -> list[int]:
    """The place of the row `own` by our accuracy in each column of an experiment that has it, best first."""
    ours = printed[(printed["folder"] == experiment) & (printed["metric"] == "accuracy") & printed["ours"].notna()]
    ranked = ours[ours["row"] != AVERAGED].assign(
        place=lambda rows: rows.groupby(["data", "heterogeneity"])["ours"].rank(method="min", ascending=False)
    )
    return sorted(ranked[ranked["row"] == own]["place"].astype(int))


def significance(paper: str, scale: str) -> str:
    """Whether the lead in the pictured column is significant at a scale, as words in brackets."""
    column, table = pictures.COLUMNS[paper], pd.read_csv(pictures.RUNS / scale / paper / "accuracy.csv")
    here = table[(table["folder"] == column.experiment) & (table["heterogeneity"] == column.heterogeneity)]
    here = here[here["data"].map(letters) == letters(column.data)]
    if here["common"].max() < FEWEST_SEEDS:
        return f" ({counted(int(here['seeds'].max()), 'seed')})"
    return " (significant)" if here["supported"].any() else " (not significant)"


def lead(accuracies: pd.Series, own: str, tested: str = "") -> str:
    """Who has the highest of the accuracies, by how much, whether that was `tested`, and the place of the row `own`."""
    ranked = accuracies.sort_values(ascending=False)
    first, second = ranked.index[:2]
    gap = ranked[first] - ranked[second]
    leads = f"{first} is first of {len(ranked)} with {ranked[first]:.2f} %, {gap:.2f} points above {second}{tested}"
    if own == first or own not in ranked:
        return leads
    return f"{leads}; {own} is number {ranked.index.get_loc(own) + 1} with {ranked[own]:.2f} %"


def differences(paper: str) -> list[str]:
    """Why our numbers may differ from the printed ones: what was measured, and how much the paper leaves open."""
    study = yaml.safe_load((papers.PAPERS / f"{paper}.yaml").read_text(encoding="utf-8"))
    parts = (study, *study["experiments"].values())
    unstated = len({text for part in parts for text in part.get("assumed", {}).values()})
    sentences: list[str] = about(paper)["differences"]
    file = f"[config/papers/{paper}.yaml](../config/papers/{paper}.yaml)"
    return [*sentences, f"The paper leaves settings open, for which {file} has {counted(unstated, 'choice')} of ours."]


def about(paper: str) -> dict[str, Any]:
    """What is said of a paper by hand."""
    said: dict[str, Any] = yaml.safe_load(ABOUT.read_text(encoding="utf-8"))[paper]
    return said


def at_length(paper: str) -> str:
    """A line for each column that was run at scale long: its rows in print and at both scales, as ranked in print."""
    small, long = (pd.read_csv(run / paper / "printed.csv", dtype={"domain": "str"}) for run in (RUN, LONG))
    long = long[long["ours"].notna() & (long["metric"] == "accuracy") & (long["row"] != AVERAGED)]
    both = long.merge(small[[*PLACE, *OURS]], on=PLACE, how="left", suffixes=("", "_small"))
    lines = []
    for (experiment, data, kind), rows in both.groupby(["folder", "data", "heterogeneity"], sort=False):
        rows = rows.sort_values("number", ascending=False)
        shown = [with_names(rows, *names) for names in (["number"], [f"{name}_small" for name in OURS], OURS)]
        lines.append([f"`{experiment}`: {data}, {kind}", *shown])
    return markdown(["", "printed", "small", "long"], lines)


def with_names(rows: pd.DataFrame, value: str, spread: str = "") -> str:
    """The value of each row with its name and, where there is one, its standard deviation over seeds."""
    spreads = rows[spread] if spread else pd.Series(float("nan"), rows.index)
    numbers = zip(rows["row"], rows[value], spreads, strict=True)
    return ", ".join(f"{name} {mean(number, deviation)}" for name, number, deviation in numbers)


def mean(number: float, deviation: float) -> str:
    """A mean over seeds as tables print it, and that of one seed alone."""
    if pd.isna(number):
        return "–"
    return f"{number:.2f}" if pd.isna(deviation) else f"{number:.2f} ± {deviation:.2f}"


def sentence(claim: dict[str, Any]) -> str:
    """A claim with where it stands, and the numbers that decided."""
    columns = in_columns(claim)
    others = f"; {VERBS[claim['verdict']]}{columns}" if columns else ""
    return f"{claim['says'].rstrip('.')} (`{claim['experiment']}`): {'; '.join(deciding(claim)[:FEW])}{others}."


def in_columns(claim: dict[str, Any]) -> str:
    """In how many of a claim's columns its verdict holds, where it has several."""
    alike, columns = int(claim["columns_alike"]), int(claim["columns"])
    return f" in {alike} of {columns} columns" if columns > FEW else ""


def deciding(claim: dict[str, Any]) -> list[str]:
    """The numbers of ours that a verdict rests on, the deciding ones first."""
    parts = [part for part in claim["numbers"].split("; ") if not part.startswith(WITHOUT_NUMBERS)]
    return [DECIDING.sub("", part) for part in parts]


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.reproduction", description=__doc__.partition("\n")[0])
    parser.parse_args()
    OUT.write_text(page(RUN), encoding="utf-8")
    pictures.write()


if __name__ == "__main__":
    main()
