"""Small folders in the formats of `datasets`, and what is read of them or said about them."""

import json

import numpy as np
import pytest
from PIL import Image

from fedgrid.data.huggingface import HuggingFace
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
