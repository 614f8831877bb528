"""Folders in the formats of `datasets`: what is read of them, and what a key holds."""

import csv

import numpy as np
import pytest
from folders import WORDS, datasets, loaded, own_caches, picture_folder, pictures, refused, table_folder  # noqa: F401

from fedgrid.data.base import convert
from fedgrid.data.common import store
from fedgrid.data.common.images import PARTS, SIGNAL, TABULAR, TEXT
from fedgrid.data.huggingface import HuggingFace

# What is read


def test_pictures_with_metadata(tmp_path):
    data = HuggingFace(path=str(picture_folder(tmp_path / "p")), image="image", target="digit", keep="writer")
    raw, info = data.load(None, None), data.info(None)
    assert (dict(info.images), info.shape, info.classes) == ({"train": 6, "test": 0}, (6, 6, 3), ("0", "1"))
    assert dict(info.kept) == {"writer": 3}
    train = raw.parts["train"]
    assert (train.pixels == np.stack([np.asarray(picture) for picture in pictures(6)])).all()
    assert train.labels.tolist() == [0, 1, 0, 1, 0, 1]
    assert train.kept["writer"].tolist() == [0, 1, 2, 0, 1, 2] and raw.kept["writer"] == ("w0", "w1", "w2")


def test_saved_to_disk_is_the_folder_it_was_made_of(tmp_path):
    """Pictures are bytes in one and files in the other; the digest of what was read is the same."""
    folder = picture_folder(tmp_path / "p")
    datasets.load_dataset(str(folder)).save_to_disk(tmp_path / "saved")
    settings = {"image": "image", "target": "digit"}
    folders = [HuggingFace(path=str(path), **settings) for path in (folder, tmp_path / "saved")]
    infos = [data.info(None) for data in folders]
    assert infos[0] == infos[1] and infos[0].copy
    first, second = (data.load(None, None).parts["train"].pixels for data in folders)
    assert (first == second).all()


def test_folders_of_classes(tmp_path):
    for number, picture in enumerate(pictures(4)):
        (tmp_path / "f" / "train" / ("cat", "dog")[number % 2]).mkdir(parents=True, exist_ok=True)
        picture.save(tmp_path / "f" / "train" / ("cat", "dog")[number % 2] / f"{number}.png")
    raw = loaded(tmp_path / "f", image="image", channels=1, side=4)
    assert raw.classes == ("cat", "dog") and sorted(raw.parts["train"].labels.tolist()) == [0, 0, 1, 1]
    assert raw.parts["train"].pixels.shape == (4, 4, 4, 1)


def test_texts_are_words_of_the_training_part(tmp_path):
    topics = ["a", "b", "a", "b", "a"]
    test = {"text": ["blue purple red", ""], "topic": ["b", "a"]}
    folder = table_folder(tmp_path / "t", train={"text": WORDS, "topic": topics}, test=test)
    data = HuggingFace(path=str(folder), text="text", target="topic", length=2)
    raw, info = data.load(None, None), data.info(None)
    assert (info.kind, info.shape, info.vocabulary) == (TEXT, (1, 2, 1), 3)
    assert raw.vocabulary == ("green", "red", "blue")  # three times each, or two: see `captions`
    red, green, blue = (2 + raw.vocabulary.index(word) for word in ("red", "green", "blue"))
    assert raw.parts["train"].pixels[:, 0, :, 0].tolist() == [
        [red, 0],
        [green, 0],
        [blue, 0],
        [red, blue],
        [green, red],
    ]
    assert raw.parts["test"].pixels[:, 0, :, 0].tolist() == [[blue, 1], [0, 0]]
    assert "2 samples: cut to 2 words" in raw.note


def test_characters_and_numbers_of_tokens(tmp_path):
    folder = table_folder(tmp_path / "t", train={"text": ["ab", "ba"], "ids": [[0, 4], [2]], "label": [0, 1]})
    of_letters = loaded(folder, text="text", unit="characters", length=3)
    assert of_letters.parts["train"].pixels[:, 0, :, 0].tolist() == [[2, 3, 0], [3, 2, 0]]
    of_tokens = HuggingFace(path=str(folder), text="ids", unit="tokens", length=2, vocabulary=5)
    assert of_tokens.info(None).vocabulary == 5
    assert of_tokens.load(None, None).parts["train"].pixels[:, 0, :, 0].tolist() == [[2, 6], [4, 0]]


def test_signals_of_columns_and_of_lists_of_channels(tmp_path):
    x, y = np.arange(12.0).reshape(4, 3), np.arange(12.0).reshape(4, 3) ** 2
    columns = {"x": x.tolist(), "y": y.tolist(), "both": np.stack([x, y], 1).tolist(), "label": [0, 1, 0, 1]}
    folder = table_folder(tmp_path / "s", "json", train=columns)
    apart, together = (HuggingFace(path=str(folder), signal=names) for names in ("x,y", "both"))
    assert apart.info(None).kind == SIGNAL and apart.info(None).shape == together.info(None).shape == (1, 3, 2)
    raw = apart.load(None, None)
    assert (raw.parts["train"].pixels == np.stack([x, y], 2)[:, None]).all()
    assert (raw.parts["train"].pixels == together.load(None, None).parts["train"].pixels).all()
    mean, std = raw.constants
    np.testing.assert_allclose(mean, [x.mean(), y.mean()], rtol=1e-5)
    np.testing.assert_allclose(std, [x.std(), y.std()], rtol=1e-5)


def test_rows_of_a_table(tmp_path):
    (tmp_path / "adult").mkdir()
    with open(tmp_path / "adult" / "train.csv", "w") as file:
        csv.writer(file).writerows([["age", "work", "income"], [20, "own", "low"], [40, "state", "high"]])
    data = HuggingFace(path=str(tmp_path / "adult"), columns="*", target="income")
    raw = data.load(None, None)
    assert (data.info(None).kind, data.info(None).shape) == (TABULAR, (1, 1, 3))
    assert raw.parts["train"].pixels[:, 0, 0].tolist() == [[20, 1, 0], [40, 0, 1]]
    assert raw.constants == ((30.0, 0.0, 0.0), (10.0, 1.0, 1.0)) and raw.classes == ("high", "low")


def test_what_is_built_is_what_was_read(tmp_path):
    """In parts that are smaller than the data, too; and some samples alone are those of the whole."""
    x = np.random.default_rng(0).normal(size=(50, 8))
    columns = {"x": x.tolist(), "who": [f"p{i % 7}" for i in range(50)], "label": [i % 3 for i in range(50)]}
    folder = table_folder(tmp_path / "s", train=columns, test={name: values[:9] for name, values in columns.items()})
    data = HuggingFace(path=str(folder), signal="x", keep="who")
    files = {part: tmp_path / f"{part}.parquet" for part in PARTS}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(store, "PART", 8 * 4 * 6)  # six signals
        convert(data, None, None, files)
    whole = store.read(files)
    assert whole.images.pixels.dtype == np.float32 and whole.facts["kind"] == SIGNAL
    assert (whole.images.pixels[:50, 0, :, 0] == x.astype(np.float32)).all()
    labels = store.read_labels(files)[0]
    assert labels.kept["who"].tolist() == [i % 7 for i in [*range(50), *range(9)]]
    used = np.array([0, 5, 6, 48, 50, 58])
    some = store.read(files, used)
    assert (some.images.pixels == whole.images.pixels[used]).all()
    assert some.images.labels.tolist() == whole.images.labels[used].tolist()


def test_large_samples_are_kept_in_a_file(tmp_path, monkeypatch):
    monkeypatch.setattr("fedgrid.data.huggingface.LARGE", 1)
    folder = table_folder(tmp_path / "s", train={"x": [[1.0, 2.0], [3.0, 4.0]], "label": [0, 1]})
    pixels = loaded(folder, signal="x").parts["train"].pixels
    assert isinstance(pixels, np.memmap) and pixels[:, 0, :, 0].tolist() == [[1, 2], [3, 4]]


# The key


def test_the_digest_is_of_what_is_read(tmp_path):
    """Other columns and other formats do not count; a label, a sample and a kept column do."""
    columns = {"x": [[1.0, 2.0], [3.0, 4.0]], "label": [0, 1], "other": ["a", "b"]}

    def digest(name, form="parquet", **changes):
        return (
            HuggingFace(path=str(table_folder(tmp_path / name, form, train=columns | changes)), signal="x")
            .info(None)
            .copy
        )

    first = digest("first")
    assert digest("other format", "json") == first
    assert digest("another column", other=["c", "d"]) == first
    assert digest("labels", label=[1, 0]) != first
    assert digest("samples", x=[[1.0, 2.0], [3.0, 5.0]]) != first


def test_files_that_have_not_changed_are_not_looked_through_again(tmp_path, monkeypatch):
    folder = table_folder(tmp_path / "s", train={"x": [[1.0, 2.0], [3.0, 4.0]], "label": [0, 1]})
    before = HuggingFace(path=str(folder), signal="x").info(None)
    monkeypatch.setattr("fedgrid.data.sources.splits.in_folder", None)  # cannot be called
    assert HuggingFace(path=str(folder), signal="x").info(None) == before
