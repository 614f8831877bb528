"""Folders in the formats of `datasets`: what is read of them, what is refused and in which words, what a key holds."""

import csv
import json

import numpy as np
import pytest
from PIL import Image

from fedgrid.data.base import convert
from fedgrid.data.common import store
from fedgrid.data.common.images import PARTS, SIGNAL, TABULAR, TEXT
from fedgrid.data.huggingface import HuggingFace
from fedgrid.data.sources.readings import Moments
from fedgrid.errors import UserError

datasets = pytest.importorskip("datasets")
WORDS = ["red", "green", "blue", "red blue", "green red green"]


@pytest.fixture(autouse=True)
def own_caches(tmp_path, monkeypatch):
    """Nothing is remembered from one test to the next."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", str(tmp_path / "huggingface"))


def pictures(count, side=6):
    draw = np.random.default_rng(count)
    return [Image.fromarray(draw.integers(0, 256, (side, side, 3), dtype=np.uint8)) for _ in range(count)]


def picture_folder(top, count=6):
    """Pictures beside a file of metadata with a digit and a writer."""
    (top / "train").mkdir(parents=True)
    rows = [{"file_name": f"{i}.png", "digit": i % 2, "writer": f"w{i % 3}"} for i in range(count)]
    for row, picture in zip(rows, pictures(count), strict=True):
        picture.save(top / "train" / row["file_name"])
    (top / "train" / "metadata.jsonl").write_text("\n".join(map(json.dumps, rows)))
    return top


def table_folder(top, form="parquet", **parts):
    """Files of the parts' columns, as Parquet or JSON."""
    top.mkdir(parents=True, exist_ok=True)
    for part, columns in parts.items():
        rows = datasets.Dataset.from_dict(columns)
        rows.to_parquet(top / f"{part}.parquet") if form == "parquet" else rows.to_json(top / f"{part}.jsonl")
    return top


def loaded(folder, **settings):
    return HuggingFace(path=str(folder), **settings).load(None, None)


def refused(folder, **settings):
    """The sentence with which a folder is refused before anything is built."""
    with pytest.raises(UserError) as error:
        HuggingFace(path=str(folder), **settings).info(None)
    return str(error.value)


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


# What is refused


def test_settings_that_say_too_little_or_too_much(tmp_path):
    folder = table_folder(tmp_path / "t", train={"text": WORDS, "label": [0, 1, 0, 1, 0]})
    assert "nothing says where the samples are; set one of image, text, signal and columns" in refused(folder)
    assert "side and colour are settings of images" in refused(folder, text="text", side=8)
    assert "there is no folder" in refused(tmp_path / "nowhere", text="text")
    with pytest.raises(UserError, match="both name the data"):
        HuggingFace(path="x", hub="y/z", text="text").info(None)


def test_a_column_or_a_split_that_is_not_there(tmp_path):
    folder = table_folder(tmp_path / "t", train={"text": WORDS, "label": [0, 1, 0, 1, 0]})
    assert refused(folder, text="texts") == "text: no column 'texts'; did you mean 'text'?"
    assert refused(folder, text="text", target="labels") == "target: no column 'labels'; did you mean 'label'?"
    assert refused(folder, text="text", keep="lable").startswith("keep: no column 'lable'; did you mean 'label'?")
    assert "no split 'trian'; did you mean 'train'?" in refused(folder, text="text", train="trian")
    assert "holds no pictures" in refused(folder, image="text")
    assert "not texts; set unit: tokens" in refused(
        table_folder(tmp_path / "i", train={"text": [[1]], "label": [0]}), text="text"
    )


def test_a_label_that_is_missing_or_unknown(tmp_path):
    missing = table_folder(tmp_path / "m", train={"text": WORDS, "label": ["a", "b", None, "a", "b"]})
    assert refused(missing, text="text") == "target: column 'label' is empty in row 2 (split 'train')"
    rows = {"text": ["x", "y"], "label": ["a", "z"]}
    unknown = table_folder(tmp_path / "u", train={"text": WORDS, "label": ["a", "b", "a", "a", "b"]}, test=rows)
    assert "no class 'z' in column 'label', the test split has" in refused(unknown, text="text")
    secret = datasets.Dataset.from_dict({"text": ["x", "y"], "label": [0, -1]})
    secret = secret.cast_column("label", datasets.ClassLabel(names=["a", "b"]))
    datasets.DatasetDict(train=secret).save_to_disk(tmp_path / "secret")
    assert "target: column 'label' is empty in row 1" in refused(tmp_path / "secret", text="text")


def test_signals_of_different_lengths(tmp_path):
    ragged = table_folder(tmp_path / "r", train={"x": [[1.0, 2.0], [3.0], [4.0, 5.0]], "label": [0, 1, 0]})
    sentence = "signal: row 1 of column 'x' has 1 readings, expected 2; cut or fill signals to one length"
    assert refused(ragged, signal="x").startswith(sentence)
    unequal = table_folder(tmp_path / "q", train={"x": [[1.0, 2.0]], "y": [[1.0]], "label": [0]})
    assert "2 in 'x' and 1 in 'y'" in refused(unequal, signal="x,y")
    gap = table_folder(tmp_path / "g", train={"x": [[1.0, 2.0], [3.0, float("nan")]], "label": [0, 1]})
    assert "row 1 of column 'x' has a reading that is no number" in refused(gap, signal="x")


def test_a_token_beyond_the_vocabulary(tmp_path):
    folder = table_folder(tmp_path / "t", train={"ids": [[0, 4], [9]], "label": [0, 1]})
    sentence = refused(folder, text="ids", unit="tokens", vocabulary=5)
    assert sentence.startswith("text: row 1 of column 'ids' has the token 9, the vocabulary has 5 (0 to 4)")


def test_pictures_of_different_sizes(tmp_path):
    folder = picture_folder(tmp_path / "p")
    pictures(1, side=9)[0].save(folder / "train" / "3.png")
    assert "has 9×9 pixels, those before it 6×6; set `side` to resize all of them" in refused(
        folder, image="image", target="digit"
    )
    assert loaded(folder, image="image", target="digit", side=5).parts["train"].pixels.shape == (6, 5, 5, 3)


def test_a_folder_that_is_no_data_set(tmp_path):
    (tmp_path / "odd").mkdir()
    (tmp_path / "odd" / "notes.docx").write_text("nothing")
    assert "cannot be opened as a data set" in refused(tmp_path / "odd", text="text")


def test_moments_of_batches_are_those_of_the_whole():
    values = 1e6 + np.random.default_rng(2).normal(size=(90, 4, 2))
    moments = Moments()
    for some in np.split(values, [1, 30, 31]):
        moments.add(some)
    mean, std = moments.constants()
    np.testing.assert_allclose(mean, values.mean(axis=(0, 1)), rtol=1e-5)
    np.testing.assert_allclose(std, values.std(axis=(0, 1)), rtol=1e-5)
