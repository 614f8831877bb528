"""Data sets: converted without loss, checked, refused in one sentence when they are damaged."""

import gzip
import struct

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from fedgrid.data import base
from fedgrid.data.digits import Digits
from fedgrid.data.mnist import Mnist
from fedgrid.errors import UserError
from fedgrid.files import read_metadata


def files(folder):
    return {part: folder / f"{part}.parquet" for part in base.PARTS}


def test_digits_come_back_as_they_are(tmp_path):
    from sklearn.datasets import load_digits

    base.convert(Digits(), None, None, files(tmp_path))
    pool, bunch = base.read(files(tmp_path)), load_digits()
    assert (pool.images.pixels[..., 0] == bunch.images).all()
    assert (pool.images.labels == bunch.target).all()
    labels, facts = base.read_labels(files(tmp_path))
    assert (labels == bunch.target).all()
    assert facts["shape"] == [8, 8, 1] and len(facts["classes"]) == 10 and facts["source"]
    assert len(labels) == Digits.images


def test_normalisation_constants_are_those_of_the_images():
    pixels = Digits().load(None, None)["train"].pixels / Digits.scale
    assert pixels.mean() == pytest.approx(Digits.mean[0], abs=1e-4)
    assert pixels.std() == pytest.approx(Digits.std[0], abs=1e-4)


def test_mnist_from_parquet_is_the_original(tmp_path, shared_data):
    base.convert(Mnist(), shared_data, None, files(tmp_path))
    pool = base.read(files(tmp_path))
    assert pool.images.pixels.shape == (70_000, 28, 28, 1)
    assert np.bincount(pool.images.labels[:60_000]).tolist() == [
        5923, 6742, 5958, 6131, 5842, 5421, 5918, 6265, 5851, 5949
    ]  # fmt: skip
    pixels = pool.images.pixels[:60_000] / 255
    assert pixels.mean() == pytest.approx(Mnist.mean[0], abs=1e-4)
    assert pixels.std() == pytest.approx(Mnist.std[0], abs=1e-4)


def idx(array):
    """An array in the format of the original MNIST files."""
    return struct.pack(">HBB" + "I" * array.ndim, 0, 8, array.ndim, *array.shape) + array.tobytes()


def original_files(root, images=6):
    raw = root / "MNIST" / "raw"
    raw.mkdir(parents=True)
    pixels = np.arange(images * 784, dtype=np.uint32).astype(np.uint8).reshape(images, 28, 28)
    labels = np.arange(images, dtype=np.uint8) % 10
    for part in ("train", "t10k"):
        (raw / f"{part}-images-idx3-ubyte").write_bytes(idx(pixels))
        (raw / f"{part}-labels-idx1-ubyte").write_bytes(idx(labels))
        for name in ("images-idx3", "labels-idx1"):
            (raw / f"{part}-{name}-ubyte.gz").write_bytes(gzip.compress((raw / f"{part}-{name}-ubyte").read_bytes()))
    return pixels, labels


def test_mnist_from_the_original_files(tmp_path):
    pixels, labels = original_files(tmp_path)
    assert Mnist().found(tmp_path)
    parts = Mnist().load(tmp_path, None)
    for part in base.PARTS:
        assert (parts[part].pixels[..., 0] == pixels).all()
        assert (parts[part].labels == labels).all()


def test_missing_data_say_what_to_put_where(tmp_path):
    assert not Mnist().found(tmp_path)
    with pytest.raises(UserError, match="into <data_root>/mnist"):
        Mnist().load(tmp_path, None)


def toy(folder, part, **changes):
    facts = {"encoding": "raw", "height": "28", "width": "28", "channels": "1"} | changes.get("facts", {})
    rows = changes.get("rows", [bytes(784)] * 3)
    table = pa.table({"image": rows, "label": pa.array(changes.get("labels", [0, 1, 2]), pa.int16())})
    (folder / "mnist").mkdir(exist_ok=True)
    pq.write_table(table.replace_schema_metadata(facts), folder / "mnist" / f"{part}.parquet")


@pytest.mark.parametrize(
    "changes, words",
    [
        ({"labels": [0, 1, 10]}, "label outside 0..9"),
        ({"rows": [bytes(784), bytes(784), bytes(783)]}, "not a whole data set file"),
        ({"facts": {"height": "14", "width": "56"}}, "another shape"),
        ({"facts": {"encoding": "jpeg"}}, "encoded as jpeg"),
        ({}, "not those of the original data set"),
    ],
)
def test_damaged_data_are_refused_and_nothing_is_written(tmp_path, changes, words):
    toy(tmp_path, "train")
    toy(tmp_path, "test", **changes)
    with pytest.raises(UserError, match=words):
        base.convert(Mnist(), tmp_path, None, files(tmp_path / "out"))
    assert not (tmp_path / "out").exists()


def test_a_truncated_file_is_refused(tmp_path):
    toy(tmp_path, "train")
    toy(tmp_path, "test")
    file = tmp_path / "mnist" / "test.parquet"
    file.write_bytes(file.read_bytes()[:-20])
    with pytest.raises(UserError, match=r"test\.parquet: not a whole data set file"):
        base.convert(Mnist(), tmp_path, None, files(tmp_path / "out"))


def test_a_truncated_file_of_ours_is_refused(tmp_path):
    base.convert(Digits(), None, None, files(tmp_path))
    file = files(tmp_path)["train"]
    file.write_bytes(file.read_bytes()[:-20])
    with pytest.raises(UserError, match="not a whole fedgrid file"):
        read_metadata(file)


def test_files_are_equal_when_written_again(tmp_path):
    for name in ("a", "b"):
        base.convert(Digits(), None, None, files(tmp_path / name))
    for part in base.PARTS:
        assert files(tmp_path / "a")[part].read_bytes() == files(tmp_path / "b")[part].read_bytes()
