"""Every malformed partition of another program is refused in one sentence that names its file."""

import json
import pickle
import re
import zipfile

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from foreign import pixels_and_labels, pool_in

from benchmarks.numerics.partitions import write_pfllib
from fedgrid.data.common.images import DatasetInfo
from fedgrid.errors import UserError
from fedgrid.partition.imported import Imported
from fedgrid.partition.importing.forms import refuse_foreign

INFO = DatasetInfo({"train": 30, "test": 10}, (4, 4, 1), ("a", "b", "c"))
HEADER = "client,split,index\n"
TEXTS = {
    "empty": ("t.csv", "", "is empty"),
    "header alone": ("t.csv", HEADER, "has no rows"),
    "no client": ("t.csv", "split,index\ntrain,1\n", "the column 'client' is missing"),
    "no split": ("t.csv", "client,index\n0,1\n", "the column 'split' is missing"),
    "no images": ("t.csv", "client,split,indx\n0,train,1\n", "did you mean 'index'"),
    "two namings": ("t.csv", "client,split,index,file\n0,train,1,a\n", "both 'index' and 'file'"),
    "duplicate column": ("t.csv", "client,split,index,index\n0,train,1,1\n", "duplicate column 'index'"),
    "ragged": ("t.csv", HEADER + "0,train,1\n0,train\n", "cannot be read as CSV"),
    "binary": ("t.csv", b"client,split,index\n\xff\xfe\x00,train,1\n", "is not text in UTF-8|cannot be read as CSV"),
    "unknown split": ("t.csv", HEADER + "0,trian,1\n", "row 1: unknown split 'trian'; did you mean 'train'"),
    "blank client": ("t.csv", HEADER + "0,train,1\n,train,2\n", "row 2 has no client"),
    "blank split": ("t.csv", HEADER + "0,,1\n", "row 1 has no split"),
    "blank index": ("t.csv", HEADER + "0,train,\n", "row 1 has no index"),
    "index of text": ("t.csv", HEADER + "0,train,one\n", "'index' must be whole numbers"),
    "index of fractions": ("t.csv", HEADER + "0,train,1.5\n", "'index' must be whole numbers"),
    "negative index": ("t.csv", HEADER + "0,train,-1\n", "row 1 has -1"),
    "huge index": ("t.csv", HEADER + "0,train,99999999999\n", "row 1 has 99999999999"),
    "index beyond": ("t.csv", HEADER + "0,train,40\n", "names image 40, and the data set has 40"),
    "true or false": ("t.csv", HEADER + "0,train,true\n", "whole numbers, not true or false"),
    "negative client": ("t.csv", HEADER + "-2,train,1\n", "client -2 is negative"),
    "all shared": ("t.csv", HEADER + "-1,test,31\n", "stands for all clients; name some"),
    "shared training": ("t.csv", HEADER + "0,train,2\n-1,train,1\n", "can share test images only"),
    "shared and own": ("t.csv", HEADER + "0,train,2\n0,test,3\n-1,test,31\n", "both of client -1"),
    "tests alone": ("t.csv", HEADER + "0,test,2\n", "no client has training images"),
    "trains on test part": ("t.csv", HEADER + "0,train,35\n", "image 35 is of that part"),
    "other label": ("t.csv", HEADER[:-1] + ",label\n0,train,1,2\n0,test,2,2\n", "1 of its 2 images have another label"),
    "label beyond": ("t.csv", "client,split,index,label\n0,train,1,7\n", "has the label 7"),
    "short digest": ("t.csv", "client,split,digest\n0,train,abc\n", "row 1 has the digest 'abc'"),
    "unknown digest": (
        "t.csv",
        f"client,split,digest\n0,train,{'0' * 64}\n",
        "choose the data set that it was made for",
    ),
    "files of no folder": ("t.csv", "client,split,file\n0,train,a.png\n", "only a folder of your own pictures"),
    "not Parquet": ("t.parquet", "PAR1 or not", "cannot be read as Parquet"),
    "not JSON": ("t.json", "{", "cannot be read as JSON"),
    "duplicate key": ("t.json", '{"0": [1], "0": [2]}', "duplicate key '0'"),
    "not a number": ("t.json", '{"0": [NaN]}', "NaN is not a row number"),
    "deep": ("t.json", "[" * 100_000, "cannot be read as JSON"),
    "a number": ("t.json", "7", "has to be a mapping or a list of clients"),
    "no clients": ("t.json", "{}", "has to be a mapping or a list of clients"),
    "no list": ("t.json", '{"0": 7}', "in place of a list of row numbers"),
    "fraction": ("t.json", '{"0": [1.5]}', "'1.5' is not a row number"),
    "truth": ("t.json", '{"0": [true]}', "'True' is not a row number"),
    "negative": ("t.json", '{"0": [-1]}', "-1 is not a row number"),
    "split of JSON": ("t.json", '{"0": {"tran": [1]}}', "unknown split 'tran'"),
    "nobody has any": ("t.json", '{"0": [], "1": []}', "no client has an image"),
    "pickle": ("t.pkl", pickle.dumps({0: [1]}), "json.dump"),
    "pickle by another name": ("t.csv", pickle.dumps({0: [1]}), "is a pickle, which can run any program"),
    "one client": ("0.npz", b"PK\x03\x04", "name the folder"),
    "text": ("t.txt", "0 1", "no form of partition ends so"),
}


@pytest.fixture
def images():
    return pixels_and_labels()


def refusal(path, tmp_path, images):
    """The sentence with which planning, or else the partition's job, refuses a file."""
    pool = pool_in(tmp_path / "store", *images)
    kind = Imported(path=str(path))
    with pytest.raises(UserError) as error:
        kind.check_feasible(INFO, [0])
        kind.split(pool, 0)
    sentence = str(error.value)
    assert "\n" not in sentence and str(path.name) in sentence and "Traceback" not in sentence
    return sentence


@pytest.mark.parametrize(("name", "content", "expected"), TEXTS.values(), ids=TEXTS)
def test_a_malformed_file_is_one_sentence(name, content, expected, tmp_path, images):
    file = tmp_path / name
    file.write_bytes(content if isinstance(content, bytes) else content.encode())
    assert re.search(expected, refusal(file, tmp_path, images))


def npz(file, **entries):
    file.parent.mkdir(parents=True, exist_ok=True)
    np.savez(file, **entries)


def client(**arrays):
    entry = np.empty((), object)
    entry[()] = arrays
    return {"data": entry}


X, Y = np.zeros((2, 1, 4, 4), "f4"), np.zeros(2, int)
FOLDERS = {
    "no data": ({"x": X, "y": Y}, "has no entry 'data'"),
    "plain array": ({"data": X}, "has to be a dictionary of x and y"),
    "no labels": (client(x=X), "in place of x and y"),
    "fewer labels": (client(x=X, y=Y[:1]), "2 images and 1 labels"),
    "labels of fractions": (client(x=X, y=Y + 0.5), "y has to be whole numbers"),
    "other shape": (client(x=np.zeros((2, 3, 4, 4), "f4"), y=Y), "its images are 3×4×4, those of the data set 4×4×1"),
    "not finite": (client(x=X + np.nan, y=Y), "no finite number"),
    "other images": (client(x=X, y=Y), "none of its first images is one of the data set"),
    "objects": (client(x=np.array([{}, {}]), y=Y), "refused, for"),
    "too large": (client(x=np.zeros(5_000_000), y=Y), "would unpack to 40 MB"),
}


@pytest.mark.parametrize(("entries", "expected"), FOLDERS.values(), ids=FOLDERS)
def test_a_malformed_client_of_pfllib_is_one_sentence(entries, expected, tmp_path, images):
    npz(tmp_path / "p/train/0.npz", **entries)
    sentence = refusal(tmp_path / "p", tmp_path, images)
    assert expected in sentence and "0.npz" in sentence


def test_damaged_zip_files(tmp_path, images):
    write_pfllib(tmp_path / "p", *images, [np.arange(20)])
    file = tmp_path / "p/train/0.npz"
    whole = file.read_bytes()
    for place in range(0, len(whole), 97):
        file.write_bytes(whole[:place] + bytes([whole[place] ^ 0x55]) + whole[place + 1 :])
        try:
            Imported(path=str(tmp_path / "p")).check_feasible(INFO, [0])
        except UserError as error:
            assert "\n" not in str(error) and "0.npz" in str(error)
    file.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(UserError, match="cannot be read as npz"):
        Imported(path=str(tmp_path / "p")).check_feasible(INFO, [0])


@pytest.mark.parametrize(
    ("made", "named", "expected"),
    [
        (["p/train/first.npz"], "p", "has to be the client's number"),
        (["p/test/0.npz"], "p", "has no client's file in train"),
        (["p/train/0.npz"], "p/train", "is one part alone"),
        (["p/other/0.npz"], "p", "a folder without PFLlib's folders"),
        ([], "absent.csv", "there is no file"),
    ],
)
def test_folders_that_are_laid_out_otherwise(made, named, expected, tmp_path, images):
    for name in made:
        npz(tmp_path / name, **client(x=X, y=Y))
    assert expected in refusal(tmp_path / named, tmp_path, images)


def test_a_zip_bomb_is_refused_by_the_size_that_it_states(tmp_path, images):
    (tmp_path / "p/train").mkdir(parents=True)
    with zipfile.ZipFile(tmp_path / "p/train/0.npz", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("data.npy", bytes(10**8))
    with pytest.raises(UserError, match="would unpack to 100 MB, more than 40 images of the data set take"):
        Imported(path=str(tmp_path / "p")).check_feasible(INFO, [0])


def test_a_foreign_file_in_place_of_a_published_one_is_answered_with_the_command(tmp_path):
    (tmp_path / "t.csv").write_text(HEADER + "0,train,1\n")
    (tmp_path / "t.json").write_text(json.dumps({"0": [1]}))
    pq.write_table(pa.table({"client": [0], "split": ["train"], "index": [1]}), tmp_path / "t.parquet")
    for name in ("t.csv", "t.json", "t.parquet"):
        with pytest.raises(UserError, match=rf"fedgrid import-partition .*{name} --data DATA, or in a study"):
            refuse_foreign(tmp_path / name)
