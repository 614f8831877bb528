"""A user's own pictures and Parquet files: read in the form that was announced, or refused in one sentence."""

import json

import numpy as np
import pyarrow as pa
import pytest
from data_files import built, files
from PIL import Image, ImageFile

from benchmarks.numerics.copies import write_rows
from benchmarks.numerics.originals import encoded
from fedgrid.components import describe, identity, resolve
from fedgrid.data.common.store import read_labels
from fedgrid.data.folder import Folder
from fedgrid.data.sources import sizes
from fedgrid.data.table import Table
from fedgrid.engine import features
from fedgrid.errors import UserError


def picture(file, value=0, size=(6, 4)):
    """A picture of one colour, (red, green, blue) = (value, 0, 255 - value), losslessly where the format allows it."""
    file.parent.mkdir(parents=True, exist_ok=True)
    Image.new("RGB", size, (value, 0, 255 - value)).save(file)


def pictures(top, *names):
    """Pictures whose red channel counts them."""
    for number, name in enumerate(names):
        picture(top / name, number)
    return top


def reds(images):
    return images.pixels[:, 0, 0, 0].tolist()


def settings(top, **others):
    return Folder(path=str(top), **others)


def test_folders_of_classes_are_all_for_training(tmp_path):
    data = settings(pictures(tmp_path, "cat/b.png", "cat/a.png", "ant/deep.name.PNG", "bee/x.bmp"))
    actual = data.load(None, None)
    assert actual.classes == ("ant", "bee", "cat") and actual.domains == ()
    assert actual.parts["train"].labels.tolist() == [0, 1, 2, 2]
    assert reds(actual.parts["train"]) == [2, 3, 1, 0], "by class, then by name"
    assert len(actual.parts["test"].labels) == 0
    assert actual.parts["train"].pixels.shape == (4, 4, 6, 3)


def test_published_parts(tmp_path):
    parts = settings(pictures(tmp_path, "train/cat/1.png", "train/dog/1.png", "test/dog/1.png")).load(None, None).parts
    assert parts["train"].labels.tolist() == [0, 1]
    assert parts["test"].labels.tolist() == [1] and reds(parts["test"]) == [2]


def test_domains_show_in_the_depth(tmp_path):
    data = settings(pictures(tmp_path, "photo/cat/1.png", "sketch/dog/1.png", "sketch/cat/1.png"))
    actual = data.load(None, None)
    assert actual.domains == ("photo", "sketch") and actual.classes == ("cat", "dog")
    train = actual.parts["train"]
    assert (train.domains.tolist(), train.labels.tolist(), reds(train)) == ([0, 1, 1], [0, 0, 1], [0, 2, 1])


def test_domains_within_parts(tmp_path):
    top = pictures(tmp_path, "train/a/cat/1.png", "train/b/cat/1.png", "test/b/cat/1.png")
    parts = settings(top).load(None, None).parts
    assert parts["train"].domains.tolist() == [0, 1] and parts["test"].domains.tolist() == [1]


def test_a_class_may_be_called_train(tmp_path):
    assert settings(pictures(tmp_path, "train/1.png", "car/1.png")).info(None).classes == ("car", "train")


def test_what_is_hidden_or_no_picture_is_left_out(tmp_path):
    top = pictures(tmp_path, "cat/1.png", "cat/.thumb.png", ".cache/dog/1.png")
    (top / "cat" / "notes.txt").write_text("notes")
    (top / "readme.md").write_text("read me")
    actual = settings(top).load(None, None)
    assert actual.classes == ("cat",) and len(actual.parts["train"].labels) == 1


@pytest.mark.parametrize(
    "names",
    [
        ("a/1.png", "b/1.png"),
        ("train/a/1.png", "train/b/1.png", "test/b/1.png"),
        ("x/a/1.png", "y/b/1.png"),
    ],
)
@pytest.mark.parametrize("others", [{}, {"side": 5}, {"channels": 1}, {"channels": 1, "colour": True}])
def test_the_form_is_that_of_the_converted_images(tmp_path, names, others):
    data = settings(pictures(tmp_path / "own", *names), **others)
    info = data.info(None)
    pool, labels = built(data, tmp_path)
    assert pool.images.pixels.shape == (sum(info.images.values()), *info.shape)
    assert pool.facts["images"] == info.images
    assert tuple(pool.facts["classes"]) == info.classes and labels.domain_names == info.domains


def test_pictures_of_many_kinds_get_one_form(tmp_path):
    for number, (name, mode) in enumerate([("a.png", "L"), ("b.jpg", "RGB"), ("c.webp", "RGBA"), ("d.png", "P")]):
        (tmp_path / "cat").mkdir(exist_ok=True)
        Image.new(mode, (5 + number, 9)).save(tmp_path / "cat" / name)
    assert settings(tmp_path, side=8).load(None, None).parts["train"].pixels.shape == (4, 8, 8, 3)
    assert settings(tmp_path, side=8, channels=1).load(None, None).parts["train"].pixels.shape == (4, 8, 8, 1)


def test_the_copy_notices_names_sizes_and_parts_and_not_the_place(tmp_path):
    def copy(top):
        return settings(top).info(None).copy

    one = pictures(tmp_path / "one", "a/1.png", "b/1.png")
    same = pictures(tmp_path / "two", "a/1.png", "b/1.png")
    assert copy(one) == copy(same) and len(copy(one)) == 16
    renamed = pictures(tmp_path / "three", "a/2.png", "b/1.png")
    parts = pictures(tmp_path / "four", "train/a/1.png", "train/b/1.png")
    with open(same / "a" / "1.png", "ab") as file:
        file.write(b" ")
    assert len({copy(one), copy(same), copy(renamed), copy(parts)}) == 4


def test_the_form_does_not_decode_all(tmp_path):
    top = pictures(tmp_path, "a/1.png", "b/1.png")
    (top / "b" / "2.png").write_bytes(b"no picture")
    assert settings(top).info(None).images == {"train": 3, "test": 0}
    with pytest.raises(UserError, match=r"2\.png"):
        settings(top).load(None, None)


@pytest.mark.parametrize(
    "names, folders, words",
    [
        ((), (), "holds no pictures"),
        (("1.png",), (), "must lie in .*/<class>"),
        (("a/b/c/1.png",), (), "must lie in .*/<class>"),
        (("cat/1.png",), ("dog",), "dog holds no pictures"),
        (("x/cat/1.png",), ("y",), "y holds no pictures"),
        (("cat/1.png", "x/cat/1.png"), (), "give all pictures a domain, or none"),
        (("train/cat/1.png", "test/x/cat/1.png"), (), "give all pictures a domain, or none"),
        (("train/cat/1.png", "test/cat/1.png", "test/dog/1.png"), (), "training part has no class 'dog'"),
        (("test/cat/1.png",), (), "no classes in a folder train"),
        (("train/cat/1.png", "val/cat/1.png"), (), "val lies beside the parts"),
    ],
)
def test_a_folder_laid_out_otherwise_is_refused(tmp_path, names, folders, words):
    pictures(tmp_path, *names)
    for folder in folders:
        (tmp_path / folder).mkdir()
    for ask in (Folder.info, lambda data, root: data.load(root, None)):
        with pytest.raises(UserError, match=words) as caught:
            ask(settings(tmp_path), None)
        assert "\n" not in str(caught.value)


def test_pictures_of_different_sizes_need_a_side(tmp_path):
    picture(tmp_path / "train" / "cat" / "1.png", size=(4, 4))
    picture(tmp_path / "test" / "cat" / "1.png", size=(4, 5))
    with pytest.raises(UserError, match=r"set `?side"):
        settings(tmp_path).load(None, None)
    mend = rf"data: \{{name: {tmp_path}, side: 32\}} in the study or --data-set side=32"
    with pytest.raises(UserError, match=rf"1\.png has 5 × 4 pixels \(height × width\), expected 4 × 4; .*{mend}"):
        settings(tmp_path).info(None)
    assert settings(tmp_path, side=4).info(None).shape == (4, 4, 3)
    actual = settings(tmp_path, side=4).load(None, None)
    assert actual.parts["train"].pixels.shape == actual.parts["test"].pixels.shape == (1, 4, 4, 3)


@pytest.fixture
def opened(monkeypatch, tmp_path):
    """The pictures that Pillow opens; none of them may be decoded. The user's cache is empty."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(ImageFile.ImageFile, "load", None)
    real, names = Image.open, []
    monkeypatch.setattr(Image, "open", lambda picture: names.append(picture) or real(picture))
    return names


def test_sizes_are_read_once_and_by_headers_alone(tmp_path, opened):
    top = pictures(tmp_path / "own", "a/1.png", "b/1.png")
    (top / "b" / "2.png").write_bytes(b"no picture")

    def look(identity):
        named = [(file.name, file) for file in sorted(top.rglob("*.png"))]
        sizes.check(named, (4, 6), identity, "")
        return len(opened)

    assert look("one") == look("one") == 3
    assert look("another") == 6
    picture(top / "b" / "3.png", size=(6, 5))
    for _ in range(2):  # what is wrong is not remembered
        with pytest.raises(UserError, match="5 × 6 pixels"):
            look("a third")


def test_an_edited_picture_is_looked_at_again(tmp_path):
    top = pictures(tmp_path / "own", "a/1.png", "b/1.png")
    assert settings(top).info(None).shape == (4, 6, 3)
    picture(top / "b" / "1.png", size=(6, 5))
    with pytest.raises(UserError, match="5 × 6 pixels"):
        settings(top).info(None)


def test_a_table_of_pictures_of_mixed_sizes_is_noticed_by_its_form(tmp_path):
    images = [encoded(np.full(shape, 0, np.uint8), "png") for shape in [(2, 3), (3, 3)]]
    file = table(tmp_path / "own.parquet", (0, 1), "png", image=pa.array(images, pa.binary()))
    for side in (None, 4):
        with pytest.raises(UserError, match=r"own\.parquet, row 1 has 3 × 3 pixels .*, expected 2 × 3; write all"):
            Table(path=str(file), side=side).info(None)


def test_a_damaged_picture_in_a_table_is_reported_when_decoded(tmp_path):
    images = pa.array([encoded(np.full((2, 3), 0, np.uint8), "png"), b"no picture", None], pa.binary())
    data = Table(path=str(table(tmp_path / "own.parquet", (0, 1, 1), "png", image=images)))
    assert data.info(None).shape == (2, 3, 1)
    with pytest.raises(UserError, match="row 1: incomplete or damaged picture"):
        data.load(None, None)


@pytest.mark.parametrize("kind, words", [(Folder, "set path to the folder"), (Table, "set path to one of them")])
@pytest.mark.parametrize("path", ["", "nowhere"])
def test_a_missing_path_is_refused(kind, words, path):
    assert not kind(path=path).is_available(None)
    for ask in (kind.info, lambda data, root: data.load(root, None)):
        with pytest.raises(UserError, match=words):
            ask(kind(path=path), None)


def table(file, labels=(0, 1), encoding="raw", **columns):
    """A Parquet file of 2×3 grey images, whose first pixel is their label."""
    rows = [np.full((2, 3), label, np.uint8) for label in labels]
    images = [row.tobytes() if encoding == "raw" else encoded(row, encoding) for row in rows]
    facts = {"encoding": encoding, "height": "2", "width": "3", "channels": "1", "classes": json.dumps(["no", "yes"])}
    write_rows(file, images, labels, facts | {"note": "mine"}, columns)
    return file


@pytest.mark.parametrize("encoding", ["raw", "png", "jpeg"])
def test_a_folder_of_parquet_files(tmp_path, encoding):
    table(tmp_path / "own" / "train.parquet", (1, 0, 1), encoding)
    table(tmp_path / "own" / "test.parquet", (0,), encoding)
    data = Table(path=str(tmp_path / "own"))
    info = data.info(None)
    assert (info.images, info.shape, info.classes) == ({"train": 3, "test": 1}, (2, 3, 1), ("no", "yes"))
    pool, _ = built(data, tmp_path)
    assert pool.images.labels.tolist() == reds(pool.images) == [1, 0, 1, 0]
    assert pool.facts["note"] == "mine", "the files are the original, whatever their encoding"


def test_one_parquet_file_is_all_for_training(tmp_path):
    domains = pa.array(["b", "a"])
    data = Table(path=str(table(tmp_path / "mine.parquet", domain=domains)), side=4, colour=True)
    info = data.info(None)
    assert (info.images, info.shape, info.domains) == ({"train": 2, "test": 0}, (4, 4, 3), ("a", "b"))
    pool, labels = built(data, tmp_path)
    assert labels.train == 2 and labels.domains.tolist() == [1, 0]
    assert pool.images.pixels.shape == (2, 4, 4, 3)
    assert pool.facts["images"] == info.images


def test_columns_that_a_table_keeps(tmp_path):
    table(tmp_path / "own" / "train.parquet", (1, 0, 1), writer=pa.array([7, 12, 7]), city=["b", "a", "b"])
    table(tmp_path / "own" / "test.parquet", (0, 1), writer=pa.array([3, 12]), city=["c", "c"])
    data = Table(path=str(tmp_path / "own"), keep="writer, city", domain="city")
    assert data.info(None).kept == {"writer": 3, "city": 3} and data.info(None).domains == ("a", "b", "c")
    pool, labels = built(data, tmp_path)
    assert labels.kept_names == {"writer": ("12", "3", "7"), "city": ("a", "b", "c")}
    assert labels.kept["writer"].tolist() == [2, 0, 2, 1, 0]
    assert labels.kept["city"].tolist() == labels.domains.tolist() == [1, 0, 1, 2, 2]
    assert pool.facts["kept"] == ["city", "writer"], "thousands of values are not written into the metadata"
    assert pool.images.labels.tolist() == [1, 0, 1, 0, 1]


def test_one_file_that_keeps_a_column(tmp_path):
    _, labels = built(Table(path=str(table(tmp_path / "mine.parquet", writer=["b", "a"])), keep="writer"), tmp_path)
    assert labels.kept["writer"].tolist() == [1, 0]


def test_what_is_kept_counts_in_the_checksum_and_nothing_else_does(tmp_path):
    path = str(table(tmp_path / "mine.parquet", writer=["b", "a"]))
    (plain, without), (kept, with_writers) = (built(Table(path=path, **s), tmp_path) for s in ({}, {"keep": "writer"}))
    assert "kept" not in plain.facts and not without.kept
    assert plain.facts["checksum"] != kept.facts["checksum"] == with_writers.checksum
    assert Table(path=path).info(None).copy == Table(path=path, keep="writer").info(None).copy
    described = describe(Table)
    assert {*identity(described, resolve(described, {"path": path}, "data"))} == {"path", "side", "colour"}


@pytest.mark.parametrize(
    "changes, words",
    [
        ({"keep": "writr"}, "has no column 'writr'; did you mean 'writer'?"),
        ({"keep": "label"}, "'label' has a meaning of its own and is not kept"),
        ({"keep": "domain"}, "natural clients take domains by `by: domain`"),
        ({"domain": "city"}, "has no column 'city'; known: gap, writer"),
        ({"keep": "gap"}, "1 of 2 images lack a value in the column 'gap'"),
    ],
)
def test_columns_that_a_table_cannot_keep(tmp_path, changes, words):
    data = Table(path=str(table(tmp_path / "mine.parquet", writer=["b", "a"], gap=["x", None])), **changes)
    for ask in (data.info, lambda root: data.load(root, None)):
        with pytest.raises(UserError) as refusal:
            ask(None)
        assert words in str(refusal.value)


def test_features_keep_the_columns(tmp_path):
    path = str(table(tmp_path / "mine.parquet", writer=["b", "a"]))
    _, labels = built(Table(path=path, keep="writer"), tmp_path / "images")
    features.build(files(tmp_path / "images"), files(tmp_path), {"backbone": features.RANDOM}, "cpu", 1)
    assert read_labels(files(tmp_path))[0].kept_names == labels.kept_names == {"writer": ("a", "b")}


def test_the_copy_of_a_table_is_its_content(tmp_path):
    one = Table(path=str(table(tmp_path / "one.parquet"))).info(None).copy
    same = Table(path=str(table(tmp_path / "same.parquet"))).info(None).copy
    other = Table(path=str(table(tmp_path / "other.parquet", (1, 1)))).info(None).copy
    assert one == same != other and len(one) == 16


def test_damaged_tables_are_refused(tmp_path):
    file = table(tmp_path / "mine.parquet", (0, 2))
    with pytest.raises(UserError, match=r"label outside 0\.\.1"):
        Table(path=str(file)).load(None, None)
    file.write_bytes(file.read_bytes()[:-20])
    for ask in (Table.info, lambda data, root: data.load(root, None)):
        with pytest.raises(UserError, match=r"mine\.parquet"):
            ask(Table(path=str(file)), None)
