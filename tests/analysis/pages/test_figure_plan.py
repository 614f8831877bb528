"""What `show` makes of figures: names, options, and what has nothing to draw."""

from dataclasses import fields, replace

import pytest

from fedgrid.analysis import kinds
from fedgrid.analysis.pages.build import write
from fedgrid.analysis.pages.figure_plan import drawings
from fedgrid.errors import UserError
from fedgrid.grid.study.sections import Section
from fedgrid.grid.study.validation import study_file

VALUES = {
    "window": 5,
    "over": "beta",
    "names": {"beta": "β"},
    "matrix": "similarity",
    "colour": "client",
    "points": 100,
    "perplexity": 5,
    "rounds": [1, "last"],
    "std": True,
    "worst_tenth": True,
    "worst_client": True,
    "jain": True,
    "ranks": True,
    "averaged": True,
    "arrows": True,
    "domains": True,
    "delta": "local",
    "target": 60,
    "costs": True,
    "formula": {"local": "theta"},
    "row": "local",
}
"""A value of every option of a figure or a table."""
STUDY = {"name": "s", "data": "digits", "heterogeneity": [{"partition": "homogeneous"}], "methods": ["local"]}


def refused(entry):
    """What is wrong with an entry of `show`; empty where nothing is."""
    try:
        study_file(Section({**STUDY, "show": [entry]}))
    except UserError as error:
        return str(error)
    return ""


@pytest.mark.parametrize(
    ("room", "kind"), [(room, kind) for room in ("tables", "figures") for kind in kinds.names(room)]
)
def test_a_study_may_set_the_declared_options_and_no_others(room, kind):
    declared = {field.name for field in fields(kinds.options(room, kind))}
    assert declared <= VALUES.keys() and kinds.options(room, kind).__doc__
    entry = {room.removesuffix("s"): kind} | ({"target": 60} if "target" in declared else {})
    laid_out_like_accuracy = kind in ("attacks", "new_clients")  # a study may say what only that table heeds
    for name, value in VALUES.items():
        output = refused(entry | {name: value})
        if name in declared:
            assert output == ""
        elif not laid_out_like_accuracy:
            assert output.startswith(f"show.0: unknown key '{name}'; ")


def test_of_what_a_study_says_a_kind_takes_what_it_declares():
    options = kinds.chosen("tables", "rounds", {"target": 60, "std": True})
    assert (options.target, options.costs) == (60, False)


def test_wrong_options_are_one_sentence():
    assert "show.0.figure: 'curve' is not a choice; did you mean 'curves'?" in refused({"figure": "curve"})
    assert "show.0.colour: 'label' is not a choice" in refused({"figure": "tsne", "colour": "label"})
    assert "show.0: unknown key 'windw'; did you mean 'window'?" in refused({"figure": "loss", "windw": 3})
    assert "show.0.window" in refused({"figure": "loss", "window": 0})
    assert "show.0.rounds" in refused({"figure": "heatmap", "rounds": ["first"]})


def showing(results, listed):
    """The results of a study that shows this."""
    return replace(results, study=replace(results.study, show=listed))


def test_a_second_figure_of_a_kind_has_a_number(common_toy):
    results = common_toy.load()
    listed: list[dict] = [
        {"figure": "curves"},
        {"table": "costs"},
        {"figure": "curves", "window": 3},
        {"figure": "distribution"},
    ]
    actual = drawings(showing(results, listed))
    assert list(actual) == ["curves-digits", "curves-digits-2", "distribution"]
    assert actual["curves-digits-2"].options == {"window": 3} and actual["curves-digits-2"].selection == {
        "data": "digits"
    }
    with pytest.raises(UserError, match="no kind of figure 'curve'; did you mean 'curves'"):
        drawings(showing(results, [{"figure": "curve"}]))


def test_a_study_that_does_not_say_has_curves_ablation_and_partitions(common_ablated):
    kinds = [one.kind for one in drawings(common_ablated.load()).values()]
    assert list(dict.fromkeys(kinds)) == ["curves", "ablation", "partition", "shares"]


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ([{"mu": 0.01}, {"mu": 0.1}, {"mu": 1}], "sweep"),
        ([{"mu": 0.01}, {"mu": 0.1}], "ablation"),
        ([{"mu": 0.01}, {"mu": 0.1}, {"mu": 1, "eta": 3}], "ablation"),
        ([{"by": "class"}, {"by": "client"}, {"by": "both"}], "ablation"),
    ],
)
def test_rows_for_the_values_of_one_number_are_a_sweep(make_study, settings, expected):
    study = make_study(seeds=[0], heterogeneity={"dir": "Dirichlet"})
    for number, row in enumerate(settings):
        study.method(f"r{number}", "fedprox", **row)
        study.cell(f"r{number}", "dir", 0, {1: [0.5, 0.5]})
    kinds_drawn = {one.kind for one in drawings(study.load()).values()}
    assert kinds_drawn & {"sweep", "ablation"} == {expected}


def test_what_has_nothing_to_draw_says_why_on_the_page(toy):
    toy.study["show"] = [{"figure": "trust"}, {"figure": "distribution"}]
    (toy.folder / "figures").mkdir(exist_ok=True)
    (toy.folder / "figures/trust-digits.svg").write_text("of an earlier run")
    write(toy.manifest, toy.folder, "toy.yaml")
    assert sorted(file.name for file in (toy.folder / "figures").iterdir()) == ["distribution.txt", "trust-digits.txt"]
    page = (toy.folder / "report.html").read_text()
    assert "No method records a trust τ here." in page and "None of the partitions of seed 0 exists." in page
