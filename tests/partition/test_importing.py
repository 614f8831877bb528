"""Partitions of other programs become the same clients here: by row number, file name, digest and pixels."""

import hashlib
import io
import json
import os
import pickle

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from foreign import pixels_and_labels, pool_in

from benchmarks.numerics.partitions import write_pfllib
from fedgrid.errors import UserError
from fedgrid.partition.common.rows import EVERYONE
from fedgrid.partition.imported import Imported
from fedgrid.partition.importing.pickled import Unsafe, arrays_of
from fedgrid.partition.importing.report import lines_of


@pytest.fixture
def images():
    return pixels_and_labels()


@pytest.fixture
def pool(tmp_path, images):
    return pool_in(tmp_path / "store", *images)


def held(table):
    """By client and split, the images."""
    return table.to_pandas().groupby(["client", "split"], observed=True)["index"].agg(list).to_dict()


def imported(path, pool, **settings):
    kind = Imported(path=str(path), **settings)
    return kind, kind.split(pool, 0), kind.about(pool, 0)


def csv(file, header, *rows):
    file.write_text("\n".join([header, *rows]) + "\n")
    return file


def test_pfllib_gives_the_same_images_byte_for_byte(tmp_path, images, pool):
    pixels, labels = images
    order = np.random.default_rng(1).permutation(len(labels))
    files = write_pfllib(tmp_path / "PFLlib", pixels, labels, np.array_split(order, 12))
    kind, table, about = imported(tmp_path / "PFLlib", pool)
    assert held(table) == {client: sorted(rows) for client, rows in _by_client(files).items()}
    assert about["clients"] == 12 and about["test"] == "own" and not list(lines_of(about["origin"]["report"]))
    assert kind.sentence_with_origin(0).startswith("imported from PFLlib (PFLlib's npz files, SHA-256 ")
    with np.load(tmp_path / "PFLlib/train/11.npz", allow_pickle=True) as written:  # the test wrote it
        floats = written["data"].item()["x"]
    back = np.rint((floats * 0.5 + 0.5) * 255).astype(np.uint8).transpose(0, 2, 3, 1)
    assert sorted(map(bytes, back)) == sorted(bytes(pixels[row]) for row in held(table)[11, "train"])


def _by_client(files):
    return {(client, part): rows.tolist() for (part, client), rows in files.items() if len(rows)}


def test_pfllib_of_real_mnist(tmp_path, shared_data):
    counts = {"train": 300, "test": 100}
    parts = [pq.read_table(shared_data / "mnist" / f"{part}.parquet").slice(0, n) for part, n in counts.items()]
    rows = pa.concat_tables(parts)
    pixels = np.stack([np.frombuffer(image, np.uint8).reshape(28, 28, 1) for image in rows["image"].to_pylist()])
    labels = rows["label"].to_numpy().astype(np.int64)
    clients = np.array_split(np.random.default_rng(0).permutation(400), 5)
    files = write_pfllib(tmp_path / "MNIST", pixels, labels, clients)
    _, table, _ = imported(tmp_path / "MNIST", pool_in(tmp_path / "store", pixels, labels, 300))
    assert held(table) == {client: sorted(rows) for client, rows in _by_client(files).items()}
    assert table["label"].to_pylist() == labels[table["index"].to_numpy()].tolist()


@pytest.mark.parametrize("constants", [(0.0, 1.0), (0.0, 1 / 255), (0.1307, 0.3081), (0.485, 0.229)])
def test_usual_normalisations_are_undone(tmp_path, images, pool, constants):
    pixels, labels = images
    if constants == (0.485, 0.229):  # of three channels
        pixels, labels = pixels_and_labels((4, 4, 3))
        pool, constants = pool_in(tmp_path / "colour", pixels, labels), ([0.485, 0.456, 0.406], [0.229, 0.224, 0.225])
        constants = tuple(np.array(values, np.float32) for values in constants)
    (tmp_path / "p/train").mkdir(parents=True)
    floats = (pixels.astype(np.float32) / np.float32(255) - constants[0]) / constants[1]
    np.savez(tmp_path / "p/train/0.npz", data={"x": floats[:9].astype(np.float32), "y": labels[:9]})
    _, table, about = imported(tmp_path / "p", pool)
    assert held(table)[0, "train"] == list(range(9)) and about["test"] == "official"


def test_equal_images_are_told_apart_by_label(tmp_path):
    pixels, labels = pixels_and_labels(number=8)
    pixels[:4] = pixels[0]  # four equal images, of the classes 0, 1, 2 and 0
    write_pfllib(tmp_path / "p", pixels, labels, [np.array([2, 1, 3]), np.array([0, 4, 5, 6, 7])])
    _, table, _ = imported(tmp_path / "p", pool_in(tmp_path / "s", pixels, labels, 8))
    clients = held(table)
    assert labels[clients[0, "train"]].tolist() == [1, 2] and labels[clients[0, "test"]].tolist() == [0]
    assert sorted(row for rows in clients.values() for row in rows) == [*range(8)]


@pytest.mark.parametrize("suffix", ["csv", "parquet"])
@pytest.mark.parametrize("naming", ["index", "file", "digest"])
def test_tables(tmp_path, images, naming, suffix):
    pixels, labels = images
    names = [f"train/{label}/{number}.png" for number, label in enumerate(labels)]
    pool = pool_in(tmp_path / "s", pixels, labels, names=lambda: names)
    named = {
        "index": lambda i: i,
        "file": lambda i: names[i],
        "digest": lambda i: hashlib.sha256(pixels[i].tobytes()).hexdigest(),
    }
    rows = [("b10", "train", 3), ("b9", "val", 7), ("b9", "test", 31), ("b10", "test", 4), ("b9", "train", 0)]
    header = ["client", "split", naming]
    rows = [(client, split, named[naming](image)) for client, split, image in rows]
    pq.write_table(pa.table([*zip(*rows, strict=True)], header), tmp_path / "t.parquet")
    csv(tmp_path / "t.csv", ",".join(header), *(",".join(map(str, row)) for row in rows))
    kind, actual, about = imported(tmp_path / f"t.{suffix}", pool)
    first = {(0, "train"): [0], (0, "validation"): [7], (0, "test"): [31]}
    assert held(actual) == first | {(1, "train"): [3], (1, "test"): [4]}
    assert about["origin"]["report"]["names"] == ["b9", "b10"] and kind.validated(0)
    assert about["origin"]["report"]["unused"] == 35


def test_digests_of_picture_files(tmp_path, images):
    digests = [hashlib.sha256(bytes([number])).hexdigest() for number in range(40)]
    pool = pool_in(tmp_path / "s", *images, file_digests=lambda: digests)
    _, table, _ = imported(csv(tmp_path / "t.csv", "client,split,digest", f"0,train,{digests[5]}"), pool)
    assert held(table)[0, "train"] == [5]


@pytest.mark.parametrize(
    "content",
    [
        {"0": [1, 2], "1": [5]},
        [[1, 2], [5]],
        {"1": {"train": [5]}, "0": {"train": [1, 2], "val": []}},
        {"separation": {"train": [0, 1]}, "data_indices": [{"train": [1, 2]}, {"train": [5], "test": []}]},
    ],
)
def test_dictionaries(tmp_path, pool, content):
    (tmp_path / "d.json").write_text(json.dumps(content))
    _, table, about = imported(tmp_path / "d.json", pool)
    assert held(table) == {(0, "train"): [1, 2], (1, "train"): [5], (EVERYONE, "test"): list(range(30, 40))}
    assert about["test"] == "official" and about["clients"] == 2


def test_fl_benchs_own_test_images(tmp_path, pool):
    (tmp_path / "d.json").write_text(json.dumps({"data_indices": [{"train": [1], "val": [2], "test": [33]}]}))
    kind, table, about = imported(tmp_path / "d.json", pool)
    assert held(table) == {(0, "train"): [1], (0, "validation"): [2], (0, "test"): [33]}
    assert about["test"] == "own" and kind.form(0).title == "JSON of FL-bench"


def test_the_report_names_what_is_unusual(tmp_path, pool):
    rows = ["0,train,1", "0,train,1", "0,test,1", "1,train,1", "2,test,5"]
    _, _, about = imported(csv(tmp_path / "t.csv", "client,split,index", *rows), pool)
    lines = list(lines_of(about["origin"]["report"]))
    assert lines == [
        "1 row names an image that its client has already",
        "1 image is held by several clients",
        "1 image is in the training and the test images of one client",
        "38 images of the data set are held by no client",
        "1 client has no training images: 2",
        "1 client has no test images and no score: 1",
    ]


def test_images_that_the_data_lack_are_left_out_if_asked_for(tmp_path, images, pool):
    digests = [hashlib.sha256(text).hexdigest() for text in (images[0][3].tobytes(), b"other")]
    file = csv(tmp_path / "t.csv", "client,split,digest", *(f"0,train,{digest}" for digest in digests))
    with pytest.raises(UserError, match=r"1 of its 2 images are not in the data set .*--unmatched drop"):
        imported(file, pool)
    kind, table, about = imported(file, pool, unmatched="drop")
    assert held(table)[0, "train"] == [3] and "1 row is left out" in next(lines_of(about["origin"]["report"]))
    assert "without images that the data set lacks" in kind.sentence_with_origin(0)


def test_the_key_is_that_of_the_content(tmp_path, pool):
    one, other = (csv(tmp_path / f"{name}.csv", "client,split,index", "0,train,1") for name in "ab")
    identity = Imported(path=str(one)).identity(0)
    assert Imported(path=str(other)).identity(3) == identity
    csv(other, "client,split,index", "0,train,2")
    assert Imported(path=str(other)).identity(0) != identity
    assert Imported(path=str(one), test="weighted").identity(0) != identity


def pickled(protocol, **arrays):
    """As numpy writes the entry of an npz file that is a dictionary."""
    array = np.empty((), object)
    array[()] = arrays
    return pickle.dumps(array, protocol=protocol)


class Evil:
    def __reduce__(self):
        return os.system, ("touch harmed",)


class Constructs:
    def __reduce__(self):
        return np.ndarray, ((10**12,),)


HOSTILE = {
    "a call": Evil(),
    "a call in an array": np.array([Evil()], dtype=object),
    "a large array": Constructs(),
    "an array of objects": np.array([{}, []], dtype=object),
    "texts": np.array(["a"]),
    "a set": {1, 2},
    "dates": np.array(["2020-01-01"], "M8[D]"),
    "a type of several fields": np.zeros(2, [("a", "i4")]),
    "a list": [1, 2],
}


@pytest.mark.parametrize("content", HOSTILE.values(), ids=HOSTILE)
@pytest.mark.parametrize("protocol", [3, 4, 5])
def test_hostile_pickles_are_refused_and_never_run(content, protocol, working_folder):
    with pytest.raises(Unsafe):
        arrays_of(pickled(protocol, x=content, y=np.arange(2)))
    assert not (working_folder / "harmed").exists()


@pytest.mark.parametrize("dtype", ["f4", "f8", ">f4", "u1", "i8", "?"])
def test_arrays_are_read_as_numpy_wrote_them(dtype):
    x = np.arange(24).reshape(2, 3, 4).astype(dtype)
    for protocol in (3, 4):
        actual = arrays_of(pickled(protocol, x=x, fortran=np.asfortranarray(x)))
        assert np.array_equal(actual["x"], x) and np.array_equal(actual["fortran"], x) and actual["x"].dtype == x.dtype


def test_every_flipped_byte_is_refused_or_read_as_numbers():
    content = pickled(4, x=np.arange(6, dtype="f4"), y=np.arange(6))
    refused = 0
    for place in range(len(content)):
        for change in (1, 0x80):
            damaged = bytearray(content)
            damaged[place] ^= change
            try:
                arrays = arrays_of(bytes(damaged))
                assert all(array.dtype.kind in "biuf" for array in arrays.values())
            except Unsafe:
                refused += 1
    assert refused > len(content) / 2
    for length in range(0, len(content), 7):
        with pytest.raises(Unsafe):
            arrays_of(content[:length])


def test_the_arrays_of_a_file_stand_behind_numpys_header():
    stream = io.BytesIO()
    np.savez(stream, data={"x": np.zeros(1), "y": np.zeros(1)})
    with np.load(io.BytesIO(stream.getvalue()), allow_pickle=False) as file, pytest.raises(ValueError, match="pickle"):
        file["data"]  # numpy agrees that it holds a pickle
