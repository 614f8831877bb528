"""``fedgrid predict``: a user's own pictures, scored by a final model."""

import csv
import os
from pathlib import Path

import numpy as np
import pytest
from earlier import train_all
from PIL import Image
from studies import prepared, study_of

from fedgrid.cli.main import main
from fedgrid.data.common.store import read
from fedgrid.files import read_table


@pytest.fixture
def cell(folder):
    """The cell of `study.yaml` with seed 0, with models and predictions."""
    study = study_of(methods=["fedper"], seeds=[0], artifacts=["models", "predictions"])
    train_all(prepared(study))
    return study.cells[0]


@pytest.fixture
def pictures(cell, folder):
    """The test images of client 1 as files, white at 255, in the order of the predictions."""
    pool = read(cell.partition.data.files)
    table = read_table(cell.kept_beside(cell.file)["predictions"])[0].to_pandas()
    table = table[(table["client"] == 1) & (table["point"] == "received")]
    (folder / "own").mkdir()
    for number, image in enumerate(table["image"]):
        pixels = np.round(pool.images.pixels[image, :, :, 0].astype(float) * 255 / 16).astype(np.uint8)
        Image.fromarray(pixels).save(folder / "own" / f"{number:03}.png")
    return table


def test_pictures_of_the_test_set_are_scored_as_recorded(cell, pictures, capsys):
    assert main(["predict", str(cell.file), "own", "--client", "1", "--out", "scores.csv"]) == 0
    assert capsys.readouterr() == ("", "")
    with open("scores.csv", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert [row["file"] for row in rows] == [f"own/{number:03}.png" for number in range(len(pictures))]
    assert [int(row["class"]) for row in rows] == pictures["predicted"].tolist()
    probabilities = [float(row["probability"]) for row in rows]
    np.testing.assert_allclose(probabilities, pictures["probability"], atol=0.02)  # a file has 256 shades, not 17


def test_a_picture_whose_name_is_not_utf8_is_scored(cell, pictures, capsys):
    name = os.fsdecode(b"caf\xe9.png")
    os.rename("own/000.png", f"own/{name}")
    command = ["predict", str(cell.file), f"own/{name}", "--client", "1"]
    assert main(command) == main([*command, "--out", "scores.csv"]) == 0
    assert capsys.readouterr().out.startswith(r"own/caf\udce9.png  ")
    assert Path("scores.csv").read_text(encoding="utf-8").splitlines()[1].startswith(r"own/caf\udce9.png,")


def test_other_sizes_and_colours_are_fitted_and_said(cell, pictures, capsys):
    with Image.open("own/000.png") as image:
        image.convert("RGBA").resize((32, 24)).save("large.png")
    assert main(["predict", str(cell.file), "large.png", "own/000.png", "--client", "1"]) == 0
    printed = capsys.readouterr()
    first, second = (line.split() for line in printed.out.splitlines())
    assert (first[0], second[0]) == ("large.png", "own/000.png") and first[1] == second[1]
    assert "fedgrid: 1 of 2 pictures: resized to 8×8 pixels\n" in printed.err
    assert "fedgrid: 1 of 2 pictures: transparency is left out\n" in printed.err


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["own"], "clients have different received models; name one of the clients 0 to 3"),
        (["own", "--client=1", "--point=adapted"], "no models at the point 'adapted'; there are received, trained"),
        (["none.png", "--client", "1"], "none.png does not exist"),
        (["empty", "--client", "1"], "empty: no pictures ("),
        (["text.png", "--client", "1"], "text.png: incomplete or damaged picture"),
    ],
)
def test_mistakes_are_one_sentence(cell, pictures, folder, complaint, arguments, sentence):
    (folder / "empty").mkdir()
    (folder / "text.png").write_text("no picture")
    assert sentence in complaint("predict", cell.file, *arguments)


def test_a_cell_without_models_says_what_to_do(cell, pictures, complaint):
    cell.kept_beside(cell.file)["models"].unlink()
    assert "put 'artifacts: [models]' into the study" in complaint("predict", cell.file, "own")
    assert "other.parquet does not exist" in complaint("predict", "other.parquet", "own")
