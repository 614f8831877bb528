import re
from pathlib import Path

import pytest
from toys import adoption

from fedgrid import analysis
from fedgrid.analysis.pages.report import report
from fedgrid.analysis.pages.table_set import write_tables
from fedgrid.errors import UserError


@pytest.fixture
def inputs(toy):
    """Give the arguments of a report on the toy study with two figures."""
    folder = toy.folder
    write_tables(toy.load(), folder / "tables")
    for stem in ("one", "two"):
        (folder / f"{stem}.svg").write_text(
            f'<svg id="same" xmlns="http://www.w3.org/2000/svg"><text>{stem}</text></svg>'
        )
        (folder / f"{stem}.txt").write_text(f"Figure {stem}\n\nThe caption of <{stem}>.\n")
    figures = [folder / "one.svg", folder / "two.svg"]
    return {"tables": folder / "tables", "figures": figures, "configfile": "config/study.yaml"}


def page_of(study, inputs):
    report(study.load(), study.folder / "report.html", **inputs)
    return (study.folder / "report.html").read_text()


def test_report_says_everything(toy, inputs):
    page = page_of(toy, inputs)
    for text in (
        "<h1>Toy study</h1>",
        "3 methods, 3 seeds, 15 cells, of which 1 failed",
        "lam = 0.75",
        "Dirichlet β=0.1",
        "<td><strong>85.75 ± 0.75</strong><sup>①</sup></td>",
        "<h3>Figure one</h3>",
        "The caption of &lt;two&gt;.",
        "Time per cell (s)",
        "the loss of client 1 is not finite in round 1",
        "15 of 15 cells",
        "snakemake --cores all --configfile config/study.yaml",
    ):
        assert text in page, text
    assert page.count('<img src="data:image/svg+xml;base64,') == 2


def test_report_needs_nothing_from_outside(toy, inputs):
    page = page_of(toy, inputs)
    assert not re.search(r"https?://|<script|<link|@import|url\(", page)
    ids = re.findall(r' id="([^"]+)"', page)
    assert len(ids) == len(set(ids)) and {f"#{name}" for name in ids} >= set(re.findall(r'href="([^"]+)"', page))


def test_the_page_answers_first(toy, inputs):
    page = page_of(toy, inputs)
    order = ["<h1>", 'id="found"', "<table", 'id="figures"', 'id="costs"', 'id="protocol"', 'id="failures"']
    order += ['id="origin"', 'id="regenerate"']
    places = [page.index(mark) for mark in order]
    assert places == sorted(places)
    actual = page[places[1] : places[2]]
    assert "Ditto leads with 85.75 %, significantly: +30.25 points over Local" in actual
    assert "FedAvg has 46.00 %" in actual
    before = re.sub(r"<style>.*</style>|<[^>]+>", "", page[: page.index("85.75")], flags=re.DOTALL)
    assert len(before.split()) < 50  # a reader has hardly begun


def test_partitions_come_after_the_figures_of_results(toy, inputs):
    for suffix in (".svg", ".txt"):
        (toy.folder / f"one{suffix}").rename(toy.folder / f"shares-one{suffix}")
    inputs["figures"][0] = toy.folder / "shares-one.svg"
    page = page_of(toy, inputs)
    assert page.index("<h3>Figure two</h3>") < page.index('id="partitions"') < page.index("<h3>Figure one</h3>")


def test_the_protocol_is_stated_once(toy, inputs):
    page = page_of(toy, inputs)
    for text in ("never of the best one", "moderated t-test", "Std. over clients: population"):
        assert page.count(text) == 1, text


def test_the_table_can_be_switched_without_a_script(toy, inputs):
    also = {"accuracy_trained": {2: [0.9, 0.9]}}
    toy.cells = [cell for cell in toy.cells if cell["heterogeneity"] != "hom"]
    toy.cell("local", "hom", 0, {2: [0.5, 0.5]}, also=also)
    page = page_of(toy, inputs)
    names = re.findall(r'<input type="radio" name="scored" id="scored-(\d)"( checked)?><label for="scored-(\d)">', page)
    assert names == [("1", " checked", "1"), ("2", "", "2"), ("3", "", "3"), ("4", "", "4")]
    for number in "1234":
        assert f'<div class="view view-{number}">' in page and f"#scored-{number}:checked ~ .view-{number}" in page


def test_a_narrow_screen_gets_a_picture_of_its_own(toy, inputs):
    (toy.folder / "one.narrow.svg").write_text('<svg xmlns="http://www.w3.org/2000/svg"/>')
    page = page_of(toy, inputs)
    assert page.count('<source media="screen and (max-width: 40rem)" srcset="data:image/svg+xml;base64,') == 1


def test_a_grey_picture_has_one_in_colour_a_click_away(toy, inputs):
    assert 'type="checkbox"' not in page_of(toy, inputs)
    for suffix in (".colours.svg", ".colours.narrow.svg"):
        (toy.folder / f"one{suffix}").write_text('<svg xmlns="http://www.w3.org/2000/svg"/>')
    page = page_of(toy, inputs)
    (name,) = re.findall(r'<input type="checkbox" id="([^"]+)"><label for="\1">All in colour</label>', page)
    figure = page[page.index(name) : page.index("</figure>", page.index(name))]
    assert figure.count('<div class="scroll') == 2 and 'alt="Figure one, all in colour"' in figure
    assert ".picture > input:not(:checked) ~ .scroll ~ .scroll, .picture > input:checked + label + .scroll" in page


def test_provenance(toy, inputs):
    toy.study["methods"]["fedavg"] |= {"file": "mine/fedavg.py", "code": "00112233aabbccdd"}
    toy.cell("local", "hom", 0, {2: [0.5, 0.5]}, commit={"id": "0123abcd", "clean": False})
    write_tables(toy.load(), toy.folder / "tables")
    (toy.folder / "mine.yaml").write_text("name: toy # <mine>\n")
    page = page_of(toy, inputs | {"configfile": str(toy.folder / "mine.yaml")})
    for text in (
        "Commit 0123abcd, with uncommitted changes to the code.",
        "<pre>name: toy # &lt;mine&gt;\n</pre>",
        '<th scope="row">FedAvg (own file)</th><td>own file <code>mine/fedavg.py</code></td>',
        "<code>00112233aabbccdd</code>",
        "<pre>git checkout 0123abcd\nsnakemake --cores all --configfile mine.yaml</pre>",
        "You also need mine/fedavg.py (FedAvg).",
    ):
        assert text in page, text
    assert '<th scope="row">FedAvg</th>' not in page


def test_adopted_cells_are_named_in_every_caption_and_their_groups_in_the_provenance(toy, inputs):
    assert "adopted" not in page_of(toy, inputs)
    toy.cell("local", "hom", 0, {2: [0.5, 0.5]}, code="2" * 16, adopted=[adoption("1" * 16, "2027-07-01T10:00:00")])
    write_tables(toy.load(), toy.folder / "tables")
    page = page_of(toy, inputs)
    sentence = "1 of 16 cells was adopted from earlier code (fedgrid 0.1). As a check, 2 of the 6 cells of its group"
    captions = re.findall("<figcaption>(.*?)</figcaption>", page, re.S)
    of_tables = [caption for caption in captions if "The caption of" not in caption]
    assert len(of_tables) > 1 and all(sentence in caption for caption in of_tables)
    provenance = page.partition('id="origin"')[2]
    assert f"<p>{sentence}" in provenance and "<li>local: 1 cell of code 11111111 → 22222222, checked on" in provenance


def test_an_experiment_without_cells_has_a_page(toy, inputs):
    toy.cells, toy.study["show"] = [], [{"table": "costs"}]
    toy.study["lacks"] = "Modalities are not there."
    page = page_of(toy, inputs)
    assert "no cells." in page and "Modalities are not there." in page and 'id="accuracy"' not in page


def test_a_study_shows_the_tables_that_it_asks_for(toy, inputs):
    toy.study["show"] = [{"table": "rounds", "target": 60}, {"table": "accuracy"}, {"table": "accuracy", "std": True}]
    for name in ("rounds", "accuracy-2"):
        (toy.folder / f"tables/{name}.html").write_text(f"<p>the table {name}</p>")
    page = page_of(toy, inputs)
    assert "the table rounds" in page and "the table accuracy-2" in page and 'id="costs"' not in page
    assert "Std. over clients (%)" not in page and "<td><strong>85.75 ± 0.75</strong></td>" in page


def test_many_columns_are_one_click_away(toy, inputs):
    for i in range(4):
        toy.study["heterogeneity"][f"h{i}"] = f"level {i}"
        toy.cell("local", f"h{i}", 0, {2: [0.5, 0.5]})
    page = page_of(toy, inputs)
    assert "<summary>The other 2 columns</summary>" in page
    assert page.index("<dt>level 1</dt>") < page.index("The other 2 columns") < page.index("<dt>level 2</dt>")


def test_settings_that_differ_between_columns_are_shown(toy, inputs):
    part = {"columns": [["digits", "hom"]], "protocol": {"rounds": 7}, "model": "cnn"}
    toy.study |= {"elsewhere": [part], "assumed": {"lr": "no paper says it"}, "lacks": "Modalities are not there."}
    toy.study["methods"]["ditto"]["elsewhere"] = [{"columns": [["digits", "hom"]], "settings": {"lam": 2.5}}]
    page = page_of(toy, inputs)
    assert "<h3>On homogeneous, 2 clients" in page and "<dd>cnn</dd>" in page and "lam = 2.5" in page
    assert "<code>lr</code>: no paper says it" in page and "Modalities are not there." in page


def test_report_is_reproducible_and_escapes(toy, inputs):
    toy.study["title"] = "<b>Toy</b>"
    page = page_of(toy, inputs)
    assert page_of(toy, inputs) == page and "<h1>&lt;b&gt;Toy&lt;/b&gt;</h1>" in page


def test_a_missing_figure_or_table_is_one_sentence(toy, inputs):
    (toy.folder / "two.txt").unlink()
    with pytest.raises(UserError, match=r"two\.txt, which does not exist\.$"):
        page_of(toy, inputs)


def imported_by(files):
    texts = [file.read_text() for file in files]
    return {name for text in texts for name in re.findall(r"^\s*(?:from|import) ([\w.]+)", text, re.MULTILINE)}


def test_analysis_imports_neither_torch_nor_pyplot():
    imported = imported_by(Path(analysis.__file__).parent.rglob("*.py"))
    assert not {name for name in imported if name.split(".")[0] == "torch" or name == "matplotlib.pyplot"}


def test_only_choices_and_the_pages_of_an_unfinished_run_and_of_a_paper_know_studies():
    """All else is made from files alone: results, partitions and manifests."""
    of_studies = ("partial.py", "paper.py", "choice.py")
    files = {file for file in Path(analysis.__file__).parent.rglob("*.py") if file.name not in of_studies}
    rooms = {name for name in imported_by(files) if name.startswith("fedgrid") and "analysis" not in name}
    published = {f"fedgrid.partition.common.{name}" for name in ("publish", "statistics")}
    of_manifests = {
        f"fedgrid.grid.plan.{name}" for name in ("cell_metadata", "cell_origin", "commit", "manifest_model", "searches")
    }
    of_manifests |= {f"fedgrid.grid.study.{name}" for name in ("claim", "codec", "expansion", "external", "model")}
    names = (
        "command",
        "components",
        "errors",
        "files",
        "grid.costs.formulas",
        "jobs.standstill",
        "loading",
        "quantities",
        "settings",
    )
    files_alone = {f"fedgrid.{name}" for name in names}
    assert rooms == files_alone | published | of_manifests
