"""Confusion of classes and reliability diagrams, by hand."""

from functools import partial

import pytest
from toys import draw_figure, predictions, write_partition

from fedgrid.analysis.figures.common.style import Undrawn
from fedgrid.analysis.pages.figure_set import draw

calibration = partial(draw_figure, "calibration")
confusion = partial(draw_figure, "confusion")

RIGHT, WRONG = ("received", 0, 0, 0, 0.75), ("received", 1, 0, 1, 0.75)


@pytest.fixture
def pictured(make_study):
    """Of two seeds, "one" is right in 3 of 4 images and then in 0 of 2, all of class 0; "two" has the first alone."""
    study = make_study(seeds=[0, 1])
    partition = [(0, "train", 0, None), (0, "test", 1, None)]
    write_partition(study.folder / "dirichlet-1/seed=0.parquet", partition, classes=("cat", "dog", "eel"))
    for label in ("one", "two"):
        study.cell(label, "dir", 0, {2: [0.5, 0.7]})
        study.keep("predictions", predictions([RIGHT, RIGHT, RIGHT, WRONG]))
        study.cell(label, "dir", 1, {2: [0.5, 0.7]})
        if label == "one":
            study.keep("predictions", predictions([WRONG, WRONG]))
    return study


def panels(figure):
    """The panels by the first line of their titles."""
    return {ax.get_title().split("\n")[0]: ax for ax in figure.axes if ax.get_title()}


def test_rows_of_a_matrix_are_shares_of_the_true_class(pictured):
    figure, title, caption = confusion(pictured.load(), "digits")
    one, two = panels(figure).values()
    shown = one.images[0].get_array()
    assert shown[0].tolist() == [50, 50, 0] and shown.mask[1:].all()  # no image is of another class
    assert two.images[0].get_array()[0].tolist() == [75, 25, 0]
    numbers = {text.get_position(): text.get_text() for text in two.texts}
    assert numbers == {(0, 0): "75", (1, 0): "25"}
    assert [label.get_text() for label in one.get_yticklabels()] == ["cat", "dog", "eel"]
    assert title == "Confusion of classes on Digits"
    assert "The images of all clients and of 2 seeds (0, 1) are counted together." in caption
    assert "An image counts once for each client that is tested on it." in caption
    assert "A cell without a number has no image." in caption and "Classes are numbered" not in caption
    assert "Without kept predictions, so not drawn: two (Dirichlet β=0.1, 2 clients, seed 1)." in caption
    assert caption.endswith("\n\nEvery method is scored as received.")


def test_many_classes_have_numbers_for_names_and_none_in_the_cells(pictured):
    pictured.keep("predictions", predictions([("received", 0, 61, 60, 0.5)]))
    figure, _, caption = confusion(pictured.load(), "digits")
    one = panels(figure)["one"]
    assert one.images[0].get_array().shape == (62, 62) and not one.texts
    assert "Classes are numbered from 0." in caption and "without a number" not in caption


def test_a_bin_is_at_its_confidence_and_accuracy(pictured):
    figure, title, caption = calibration(pictured.load(), "digits")
    one, two = panels(figure).values()
    (gap, mark), (_, calibrated) = one.collections, two.collections
    assert mark.get_offsets().tolist() == [[75, 50]] and calibrated.get_offsets().tolist() == [[75, 75]]
    assert gap.get_segments()[0].tolist() == [[75, 75], [75, 50]]
    # seeds: |3/4 − 0.75| and |0 − 0.75|, whose standard deviation is 0.75/√2
    assert one.get_title() == "one\nECE 37.50 ± 53.03 %" and two.get_title() == "two\nECE 0.00 %"
    assert title == "Calibration on Digits"
    assert "in 15 bins" not in caption and "divided into 15 bins of equal width" in caption
    assert "ECE, the expected calibration error (Guo et al., ICML 2017)" in caption
    assert "mean ± sample standard deviation over seeds (partition and training seed)." in caption


def test_marks_and_lines_grow_with_their_images(pictured):
    pictured.keep("predictions", predictions([RIGHT] * 9 + [("received", 0, 0, 0, 0.95)]))
    figure, _, _ = calibration(pictured.load(), "digits")
    gap, mark = panels(figure)["two"].collections
    assert mark.get_sizes()[0] > 4 * mark.get_sizes()[1] and gap.get_linewidths()[0] > 4 * gap.get_linewidths()[1]


def test_lines_of_panels_are_labelled_at_their_ends(make_study):
    study = make_study(seeds=[0])
    for label in "abcdefg":
        study.cell(label, "dir", 0, {2: [0.5, 0.7]})
        study.keep("predictions", predictions([RIGHT]))
    study.cell("a", "hom", 0, {2: [0.5, 0.7]})
    study.keep("predictions", predictions([RIGHT]))
    for kind in (confusion, calibration):
        figure, _, caption = kind(study.load(), "digits")
        titles = [part.get_suptitle() for part in figure.subfigs]
        assert titles == ["Dirichlet β=0.1, 2 clients", "homogeneous, 2 clients"]
        axes = [ax for ax in figure.subfigs[0].axes if ax.get_title()]
        left, bottom = (
            "".join(ax.get_title()[0] for ax in axes if axis_of(ax).get_tick_params()[name])
            for axis_of, name in ((lambda ax: ax.yaxis, "labelleft"), (lambda ax: ax.xaxis, "labelbottom"))
        )
        assert (left, bottom) == ("ae", "defg")
        assert "one seed (0) are counted. " in caption and "±" not in caption


def test_counts_are_not_weighted_where_accuracies_are(pictured):
    rows = [(0, "train", 0, None), (-1, "test", 1, None)]
    write_partition(pictured.folder / "dirichlet-1/seed=0.parquet", rows, test="weighted")
    pictured.study["at"] = "last5"
    for kind in (confusion, calibration):
        protocol = kind(pictured.load(), "digits")[2].split("\n\n")[1]
        assert "Predictions are those of the last round, even where scores use other rounds." in protocol
        assert "do not weight test images by class: Dirichlet β=0.1, 2 clients." in protocol


@pytest.mark.parametrize("kind", [confusion, calibration])
def test_nothing_to_draw_is_one_sentence(common_toy, pictured, kind):
    with pytest.raises(Undrawn, match=r"because no cell has kept its predictions \(artifacts: \[predictions\]\)\.$"):
        kind(common_toy.load(), "digits")
    results = pictured.load().rescored("validated")
    with pytest.raises(Undrawn, match=r"no cell has predictions of the model that scores it; report\.score can be"):
        kind(results, "digits")


def test_the_score_of_the_study_chooses_the_model(pictured):
    pictured.keep("predictions", predictions([WRONG, ("trained", 1, 0, 0, 0.75)]))
    figure, _, caption = confusion(pictured.load().rescored("trained"), "digits")
    (ax,) = panels(figure).values()
    assert ax.get_title() == "two" and ax.images[0].get_array()[0].tolist() == [100, 0, 0]
    assert (
        "Without predictions after local training, so not drawn: one (Dirichlet β=0.1, 2 clients) and two (" in caption
    )
    assert caption.endswith("Every method is scored after local training.")


@pytest.mark.parametrize("kind", ["confusion", "calibration"])
def test_the_same_bytes_twice(pictured, tmp_path, kind):
    made = []
    for name in ("a", "b"):
        draw(kind, pictured.load(), tmp_path / name / "x", {"data": "digits"})
        made.append({file.name: file.read_bytes() for file in (tmp_path / name).iterdir()})
    assert made[0] == made[1] and set(made[0]) == {"x.svg", "x.pdf", "x.txt"}
