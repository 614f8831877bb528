"""Folders in the formats of `datasets`: what is refused and in which words, and what must not be silently wrong."""

import os

import numpy as np
import pytest
from folders import WORDS, datasets, loaded, own_caches, picture_folder, pictures, refused, table_folder  # noqa: F401

from fedgrid.data.huggingface import HuggingFace
from fedgrid.data.sources import splits
from fedgrid.data.sources.readings import Moments
from fedgrid.errors import UserError

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


# What a second reader found


def test_where_a_part_ends_and_what_classes_are_called_counts(tmp_path, monkeypatch):
    """Two parts of as many rows as are read together are not one part of twice as many."""
    monkeypatch.setattr("fedgrid.data.sources.splits.AT_ONCE", 2)
    rows = {"x": [[1.0], [2.0], [3.0], [4.0]], "label": [0, 1, 0, 1]}
    one = table_folder(tmp_path / "one", train=rows)
    first, last = ({name: values[part] for name, values in rows.items()} for part in (slice(2), slice(2, 4)))
    two = table_folder(tmp_path / "two", train=first, test=last)
    named = []
    for names in (["cat", "dog"], ["dog", "cat"]):
        saved = datasets.Dataset.from_dict(rows).cast_column("label", datasets.ClassLabel(names=names))
        datasets.DatasetDict(train=saved).save_to_disk(tmp_path / names[0])
        named.append(HuggingFace(path=str(tmp_path / names[0]), signal="x").info(None).copy)
    copies = [HuggingFace(path=str(folder), signal="x").info(None).copy for folder in (one, two)]
    assert len({*copies, *named}) == 4


def test_a_file_that_changed_within_its_time_is_read_again(tmp_path):
    folder = table_folder(tmp_path / "s", "json", train={"x": [[1.0], [2.0]], "label": [0, 1]})
    data, file = HuggingFace(path=str(folder), signal="x"), folder / "train.jsonl"
    assert data.info(None).classes == ("0", "1")
    times = (file.stat().st_atime_ns, file.stat().st_mtime_ns)
    table_folder(folder, "json", train={"x": [[1.0], [2.0]], "label": [5, 6]})
    os.utime(file, ns=times)
    assert data.info(None).classes == ("5", "6")


def test_what_was_found_by_other_code_is_not_used(tmp_path, monkeypatch):
    folder = table_folder(tmp_path / "t", train={"text": ["Hello Hello", "x x"], "label": [0, 1]})
    data = HuggingFace(path=str(folder), text="text")
    assert data.load(None, None).vocabulary == ("hello", "x")
    monkeypatch.setattr("fedgrid.data.huggingface._of_code", lambda: ["another version"])
    monkeypatch.setattr("fedgrid.data.sources.samples.words", str.split)
    assert data.load(None, None).vocabulary == ("Hello", "x")


def test_splits_that_number_classes_differently(tmp_path):
    """Labels are known by their names: those of the test part are not read as the training part's numbers."""
    parts = {}
    for part, names in (("train", ["cat", "dog"]), ("test", ["dog", "cat"])):
        rows = datasets.Dataset.from_dict({"x": [[1.0], [2.0]], "label": [0, 1]})
        parts[part] = rows.cast_column("label", datasets.ClassLabel(names=names))
    datasets.DatasetDict(parts).save_to_disk(tmp_path / "d")
    raw = loaded(tmp_path / "d", signal="x")
    assert raw.classes == ("cat", "dog")
    assert raw.parts["train"].labels.tolist() == [0, 1] and raw.parts["test"].labels.tolist() == [1, 0]


def test_classes_that_are_kept_have_their_names(tmp_path):
    rows = datasets.Dataset.from_dict({"x": [1.0, 2.0], "who": [1, 0], "label": [0, 1]})
    rows = rows.cast_column("who", datasets.ClassLabel(names=["ann", "bob"]))
    datasets.DatasetDict(train=rows).save_to_disk(tmp_path / "d")
    raw = loaded(tmp_path / "d", columns="x", keep="who")
    assert raw.kept["who"] == ("ann", "bob") and raw.parts["train"].kept["who"].tolist() == [1, 0]
    assert loaded(tmp_path / "d", columns="x,who").parts["train"].pixels[:, 0, 0].tolist() == [[1, 0, 1], [2, 1, 0]]


def test_numbers_too_far_from_0_are_refused(tmp_path):
    folder = table_folder(tmp_path / "t", train={"time": [1.7e9, 1.7e9 + 3600], "label": [0, 1]})
    sentence = "columns: a column of numbers varies by 1.8e+03 about 1.7e+09, too little for numbers of 32 bits"
    assert refused(folder, columns="time").startswith(sentence)


def test_labels_and_test_rows_are_not_trained_on(tmp_path):
    folder = table_folder(tmp_path / "t", train={"x": [1.0, 2.0], "label": [0, 1]})
    assert "'label' is to be predicted, and cannot be a sample too" in refused(folder, columns="x,label")
    assert "'train' is the training part; name another split" in refused(folder, columns="x", test="train")


def test_mistakes_that_used_to_end_in_a_traceback(tmp_path):
    folder = table_folder(tmp_path / "t", train={"text": WORDS, "ids": [[1, None]] * 5, "label": [0, 1, 0, 1, 0]})
    assert "text: name one column, not text, ids" in refused(folder, text="text,ids")
    assert "row 0 of column 'ids' has a token that is no number" in refused(folder, text="ids", unit="tokens")
    names = {"x": [str(i) for i in range(1001)], "label": [0, 1, *[0] * 999]}
    assert "more than 1,000 different names" in refused(table_folder(tmp_path / "n", train=names), columns="x")
    parts = {
        part: datasets.Dataset.from_dict({"x": x, "label": [0, 1]})
        for part, x in (("train", [1.0, 2.0]), ("test", ["a", "b"]))
    }
    datasets.DatasetDict(parts).save_to_disk(tmp_path / "mixed")
    assert "column 'x' holds numbers in one split and names in another" in refused(tmp_path / "mixed", columns="x")
    kept = table_folder(tmp_path / "k", train={"x": [1.0, 2.0], "domain": ["a", "b"], "label": [0, 1]})
    assert "set domain, and by: domain in the partition" in refused(kept, columns="x", keep="domain")


def test_labels_of_files_with_gaps(tmp_path):
    """A column of whole numbers with an empty row is read as floats: the row is named; others are whole."""
    for name, last in (("gap", ""), ("whole", "1.0")):
        (tmp_path / name).mkdir()
        (tmp_path / name / "train.csv").write_text(f"x,label\n1,0.0\n2,1.0\n3,{last}\n")
    assert refused(tmp_path / "gap", columns="x").startswith("target: column 'label' is empty in row 2")
    assert loaded(tmp_path / "whole", columns="x").classes == ("0", "1")


def test_a_damaged_picture_is_named_by_its_row(tmp_path):
    folder = picture_folder(tmp_path / "p")
    datasets.load_dataset(str(folder), cache_dir=str(tmp_path / "c")).save_to_disk(tmp_path / "saved")
    saved = datasets.load_from_disk(str(tmp_path / "saved")).cast_column("image", datasets.Image(decode=False))
    rows = [
        row | {"image": row["image"] | {"bytes": row["image"]["bytes"][:60]}} if n == 4 else row
        for n, row in enumerate(saved["train"])
    ]
    damaged = datasets.Dataset.from_list(rows).cast_column("image", datasets.Image())
    datasets.DatasetDict(train=damaged).save_to_disk(tmp_path / "damaged")
    with pytest.raises(UserError, match="column 'image', row 4: incomplete or damaged picture"):
        loaded(tmp_path / "damaged", image="image", target="digit", side=6)


def test_a_token_that_fills_up(tmp_path):
    folder = table_folder(tmp_path / "t", train={"ids": [[7, 0, 0], [3, 4, 0]], "label": [0, 1]})
    raw = loaded(folder, text="ids", unit="tokens", length=3, padding=0)
    assert raw.parts["train"].pixels[:, 0, :, 0].tolist() == [[9, 0, 0], [5, 6, 0]]


def test_another_commit_in_the_cache_is_not_the_one_that_is_named(monkeypatch):
    """Where the hub cannot be reached, `datasets` gives what it has of a set, whichever commit was asked for."""

    class Split:
        column_names, features = ["text", "label"], {}
        cache_files = [{"filename": f"/cache/0.0.0/{'b' * 40}/train.arrow"}]

    monkeypatch.setattr(datasets, "load_dataset", lambda *args, **kwargs: {"train": Split()})
    with pytest.raises(UserError, match="another commit is in the cache"):
        splits.of_hub("owner/set", "", "a" * 40, {"train": "train"}, download=True)
    assert splits.of_hub("owner/set", "", "b" * 40, {"train": "train"}, download=True)["train"].commit == "b" * 40
