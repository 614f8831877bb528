"""Data sets: converted without loss, checked, refused in one sentence when they are damaged."""

import gzip

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from data_files import built, files

from benchmarks.numerics.originals import write_idx
from fedgrid.components import describe
from fedgrid.data.base import convert
from fedgrid.data.common.images import PARTS
from fedgrid.data.digits import Digits
from fedgrid.data.emnist import Emnist
from fedgrid.data.mnist import Mnist
from fedgrid.errors import UserError
from fedgrid.files import read_metadata
from fedgrid.loading import load, names

CLASSES = '["0", "1", "2", "3", "4", "5", "6", "7", "8", "9"]'


def test_digits_come_back_as_they_are(tmp_path):
    from sklearn.datasets import load_digits

    (pool, labels), bunch = built(Digits(), tmp_path), load_digits()
    assert (pool.images.pixels[..., 0] == bunch.images).all()
    assert (pool.images.labels == bunch.target).all()
    assert (labels.labels == bunch.target).all()
    facts = pool.facts
    assert facts["shape"] == [8, 8, 1] and len(facts["classes"]) == 10 and facts["source"]
    assert facts["images"] == Digits.image_counts and labels.train == Digits.image_counts["train"]
    assert facts["checksum"] == Digits.checksum


def test_normalisation_constants_are_those_of_the_images():
    pixels = Digits().load(None, None).parts["train"].pixels / Digits.scale
    assert pixels.mean() == pytest.approx(Digits.mean[0], abs=1e-4)
    assert pixels.std() == pytest.approx(Digits.std[0], abs=1e-4)


def test_mnist_from_parquet_is_the_original(tmp_path, shared_data):
    pool, _ = built(Mnist(), tmp_path, shared_data)
    assert pool.images.pixels.shape == (70_000, 28, 28, 1)
    assert np.bincount(pool.images.labels[:60_000]).tolist() == [
        5923, 6742, 5958, 6131, 5842, 5421, 5918, 6265, 5851, 5949
    ]  # fmt: skip
    pixels = pool.images.pixels[:60_000].astype(np.float32) / 255
    assert pixels.mean() == pytest.approx(Mnist.mean[0], abs=1e-4)
    assert pixels.std() == pytest.approx(Mnist.std[0], abs=1e-4)
    assert pool.facts["checksum"] == Mnist.checksum and pool.facts["note"] == ""
    info = Mnist().info(shared_data)
    assert pool.facts["images"] == info.images == {"train": 60_000, "test": 10_000}
    assert info.copy == "" and info.classes == Mnist.classes and info.shape == pool.images.pixels.shape[1:]


def test_images_are_resized_and_coloured_as_the_form_says(tmp_path):
    data = Digits(side=12, colour=True)
    pool, _ = built(data, tmp_path)
    pixels = pool.images.pixels
    assert pixels.shape[1:] == (12, 12, 3) == data.info(None).shape
    assert (pixels[..., 0] == pixels[..., 2]).all()


@pytest.mark.parametrize("name", names("data"))
def test_every_data_set_states_its_facts(name):
    data = load("data", name)
    facts = describe(data)
    assert facts["title"] and facts["summary"].endswith(".")
    assert all(parameter["doc"] for parameter in facts["parameters"])


def test_mnist_from_the_original_files(tmp_path):
    written = write_idx(tmp_path / "MNIST" / "raw", ("train", "t10k"))
    assert Mnist().is_available(tmp_path)
    actual = Mnist().original(tmp_path, download=False)
    assert actual.classes == Mnist.classes and actual.note == ""
    for images, (pixels, labels) in zip(actual.parts.values(), written, strict=True):
        assert (images.pixels[..., 0] == pixels).all()
        assert (images.labels == labels).all()


def test_emnist_is_upright(tmp_path):
    _, (pixels, _) = write_idx(tmp_path / "EMNIST" / "raw", ("emnist-balanced-train", "emnist-balanced-test"))
    actual = Emnist().original(tmp_path, download=False)
    assert (actual.parts["test"].pixels[..., 0] == pixels.transpose(0, 2, 1)).all()


def test_packed_original_files_are_not_taken_for_the_data(tmp_path):
    write_idx(tmp_path / "MNIST" / "raw", ("train", "t10k"))
    for file in list((tmp_path / "MNIST" / "raw").iterdir()):
        file.with_name(file.name + ".gz").write_bytes(gzip.compress(file.read_bytes()))
        file.unlink()
    with pytest.raises(UserError, match=r"unpacked original files .* into <data_root>/MNIST/raw"):
        Mnist().load(tmp_path, None)


def test_damaged_original_files_are_named(tmp_path):
    write_idx(tmp_path / "MNIST" / "raw", ("train", "t10k"))
    (tmp_path / "MNIST" / "raw" / "t10k-images-idx3-ubyte").write_bytes(b"\0\0\x08\x03nothing")
    with pytest.raises(UserError, match=r"'mnist' cannot be read .*t10k-images"):
        Mnist().load(tmp_path, None)


def test_missing_data_say_what_to_put_where(tmp_path):
    assert not Mnist().is_available(tmp_path)
    with pytest.raises(UserError, match="into <data_root>/mnist"):
        Mnist().load(tmp_path, None)


def toy(folder, part, **changes):
    facts = {"encoding": "raw", "height": "28", "width": "28", "channels": "1", "classes": CLASSES}
    rows = changes.get("rows", [bytes(784)] * 3)
    columns = {"image": rows, "label": pa.array(changes.get("labels", [0, 1, 2]), pa.int16())}
    table = pa.table({name: column for name, column in columns.items() if name != changes.get("without")})
    (folder / "mnist").mkdir(exist_ok=True)
    metadata = {key: text for key, text in (facts | changes.get("facts", {})).items() if text is not None}
    pq.write_table(table.replace_schema_metadata(metadata), folder / "mnist" / f"{part}.parquet")


@pytest.mark.parametrize(
    "changes, words",
    [
        ({"labels": [0, 1, 10]}, "test.parquet: contains a label outside 0..9"),
        ({"labels": [0, 1, -1]}, "test.parquet: contains a label outside 0..9"),
        ({"rows": [bytes(784), bytes(784), bytes(783)]}, "test.parquet: incomplete or damaged data set file"),
        ({"facts": {"height": "14", "width": "56"}}, "differ in"),
        ({"facts": {"encoding": "webp"}}, "test.parquet: images are encoded as 'webp'"),
        ({"facts": {"encoding": "jpeg"}}, "differ in"),
        ({"facts": {"height": "many"}}, "test.parquet: incomplete or damaged data set file"),
        ({"facts": {"classes": None}}, "test.parquet: the columns or metadata lack classes"),
        ({"rows": [bytes(784), None, bytes(784)]}, "the test part has 2 images and 3 labels"),
        ({"rows": ["a", "b", "c"]}, "test.parquet: the column image holds string"),
        ({"without": "label"}, "test.parquet: the columns or metadata lack label"),
    ],
)
def test_damaged_data_are_refused_and_nothing_is_written(tmp_path, changes, words):
    toy(tmp_path, "train")
    toy(tmp_path, "test", **changes)
    with pytest.raises(UserError, match=words):
        convert(Mnist(), tmp_path, None, files(tmp_path / "out"))
    assert not (tmp_path / "out").exists()


def test_a_copy_that_claims_to_be_the_original_is_checked(tmp_path, monkeypatch):
    monkeypatch.setattr(Mnist, "image_counts", {"train": 3, "test": 3})
    toy(tmp_path, "train")
    toy(tmp_path, "test")
    with pytest.raises(UserError, match="differ from the original data set"):
        convert(Mnist(), tmp_path, None, files(tmp_path / "out"))
    assert not (tmp_path / "out").exists()


def test_truncated_and_damaged_files_are_refused(tmp_path):
    rows = [np.random.default_rng(n).bytes(784) for n in range(50)]
    for part in PARTS:
        toy(tmp_path, part, rows=rows, labels=[0] * 50)
    file = tmp_path / "mnist" / "train.parquet"
    content, damaged = file.read_bytes(), r"train\.parquet: incomplete or damaged data set file"
    file.write_bytes(content[:20] + bytes(200) + content[220:])
    with pytest.raises(UserError, match=damaged):
        convert(Mnist(), tmp_path, None, files(tmp_path / "out"))
    file.write_bytes(content[:-20])
    for ask in (Mnist.info, lambda data, root: convert(data, root, None, files(tmp_path / "out"))):
        with pytest.raises(UserError, match=damaged):
            ask(Mnist(), tmp_path)


def test_a_truncated_file_of_ours_is_refused(tmp_path):
    convert(Digits(), None, None, files(tmp_path))
    file = files(tmp_path)["train"]
    file.write_bytes(file.read_bytes()[:-20])
    with pytest.raises(UserError, match="damaged"):
        read_metadata(file)


def test_files_are_equal_when_written_again(tmp_path):
    for name in ("a", "b"):
        convert(Digits(), None, None, files(tmp_path / name))
    for part in PARTS:
        assert files(tmp_path / "a")[part].read_bytes() == files(tmp_path / "b")[part].read_bytes()
