import json
import re

from fedgrid.analysis.pages.readme_picture import draw, main


def test_the_picture_says_what_was_found_and_the_table(toy):
    stem = toy.folder / "picture"
    assert main([str(toy.results()), str(stem)]) == 0
    svg, texts = stem.with_suffix(".svg").read_text(), json.loads(stem.with_suffix(".json").read_text())
    assert svg == draw(texts)
    output = re.sub(r"<[^>]+>", " ", svg)
    for text in ("Toy study", "Ditto leads with 85.75 %, significantly: +30.25 points", "55.50 ± 0.50", "FedAvg"):
        assert text in output
    assert len(texts["keys"]) == 15
    assert not re.search(r"href|url\(|<script|@import", svg)


def test_names_cannot_become_markup(toy):
    toy.study["title"] = "<b>&"
    main([str(toy.results()), str(toy.folder / "picture")])
    assert "<title>&lt;b&gt;&amp;</title>" in (toy.folder / "picture.svg").read_text()
