"""What every data set does: it loads the images that it declares, the same ones every time."""

import json
import os
import subprocess
import sys
from dataclasses import fields
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from fedgrid.data.base import DataSet, convert
from fedgrid.data.common import store
from fedgrid.data.common.images import IMAGE, PARTS, SIGNAL, TABULAR, TEXT, RawDataset
from fedgrid.data.common.store import checksum_of
from fedgrid.loading import load, load_file
from fedgrid.suite.expectations import DATA, check, check_documented, expect, no_global_draws


def root() -> Path | None:
    """The folder of data sets on this machine; nothing is downloaded for a check."""
    folder = os.environ.get("FEDGRID_DATA")
    return Path(folder) if folder else None


SAMPLES: dict[str, tuple[type[np.generic], str]] = {
    TEXT: (np.uint16, "uint16: tokens, 0 fills up"),
    SIGNAL: (np.float32, "float32"),
    TABULAR: (np.float32, "float32"),
}
"Types of numbers of what is no image, and what they are."


@cache
def loaded(data: DataSet) -> RawDataset:
    """What several checks look at."""
    return data.load(root(), None)


@check("title, source and settings are documented", DATA)
def test_it_says_what_it_is(data: DataSet) -> None:
    check_documented(type(data))
    expect(bool(data.title), "its class states no title = 'MNIST', its name in tables")
    expect(bool(data.source), "its class states no source = 'Authors, Venue Year'")


@check("normalisation constants fit the images", DATA)
def test_constants(data: DataSet) -> None:
    pixels, channels = loaded(data).parts["train"].pixels, loaded(data).parts["train"].pixels.shape[-1]
    mean, std = loaded(data).constants or (data.mean, data.std)
    for name, numbers in (("mean", mean), ("std", std)):
        count = len(numbers)
        expect(count in (1, channels), f"`{name}` has {count} numbers; give 1, or {channels}, one a channel")
    expect(min(std) > 0, f"std = {std} has to be greater than 0: inputs are divided by it")
    largest = pixels.max() if pixels.size and data.kind == IMAGE else 0
    expect(largest <= data.scale, f"scale = {data.scale} is the largest pixel value, but there are pixels of {largest}")


@check("images are of the declared number, type and shape", DATA)
def test_images(data: DataSet) -> None:
    raw, declared = loaded(data), data.info(root())
    expect(set(raw.parts) == set(PARTS), f"`original` gives the parts {', '.join(PARTS)}, not {', '.join(raw.parts)}")
    for part in PARTS:
        images = raw.parts[part]
        pixels = images.pixels
        number, form = SAMPLES.get(data.kind, (np.uint8, "uint8 from 0 to `scale`"))
        expect(pixels.dtype == number, f"samples of the {part} part are {pixels.dtype}; give {form}")
        expect(pixels.ndim == 4, f"pixels are [n, height, width, channels], not {pixels.ndim}-dimensional")
        shape = data.prepared_shape(tuple(pixels.shape[1:]))
        expect(shape == declared.shape, f"images of the {part} part are {shape}, not {declared.shape} as declared")
        count, stated = len(images.labels), declared.images[part]
        expect(count == stated, f"the {part} part has {count:,} samples, not {stated:,} as declared")


@check("labels and domains are declared ones", DATA)
def test_labels(data: DataSet) -> None:
    raw, declared = loaded(data), data.info(root())
    for name, stated, actual in (
        ("classes", declared.classes, raw.classes),
        ("domains", declared.domains, raw.domains),
        ("modalities", declared.modalities, raw.modalities),
    ):
        expect(tuple(stated) == tuple(actual), f"the {name} that are declared are not those that are loaded")
    numbers = {column: len(values) for column, values in raw.kept.items()}
    expect(dict(declared.kept) == numbers, f"columns with {numbers} values are kept, `kept` = {dict(declared.kept)}")
    for part in PARTS:
        images = raw.parts[part]
        expect(images.labels.dtype == np.int64, f"labels of the {part} part are {images.labels.dtype}; give int64")
        check_range(f"labels of the {part} part", images.labels, len(raw.classes))
        if images.domains is not None:
            expect(len(images.domains) == len(images.labels), f"every image of the {part} part has one domain")
            check_range(f"domains of the {part} part", images.domains, len(raw.domains))
        for column, places in images.kept.items():
            expect(len(places) == len(images.labels), f"every image of the {part} part has one value of '{column}'")
            check_range(f"values of '{column}' of the {part} part", places, len(raw.kept.get(column, ())))
    absent = sorted(set(range(len(raw.classes))) - set(raw.parts["train"].labels.tolist()))
    names = ", ".join(str(raw.classes[i]) for i in absent[:5])
    expect(not absent, f"no training image is of the class {names}; declare the classes that there are")


def check_range(what: str, numbers: np.ndarray, count: int) -> None:
    """Whole numbers from 0 to `count` - 1."""
    within = not len(numbers) or 0 <= numbers.min() <= numbers.max() < count
    expect(bool(within), f"{what} are outside 0 to {count - 1}")


@check("it loads the same images every time", DATA)
def test_it_is_deterministic(data: DataSet) -> None:
    first = checksum_of(loaded(data).parts)
    with no_global_draws("use fedgrid.randomness.generator(name, seed)"):
        again = checksum_of(data.load(root(), None).parts)
    mend = "draw from fedgrid.randomness.generator, and sort the names of files"
    expect(again == first, f"loading twice gave other images; {mend}")
    if data.checksum:
        original = first == data.checksum or bool(loaded(data).note)
        expect(original, f"checksum = '{data.checksum[:12]}…' is not that of the images, '{first}'")


@check("another process loads the same images", DATA)
def test_another_process_loads_the_same(data: DataSet) -> None:
    settings = json.dumps({field.name: getattr(data, field.name) for field in fields(data)})
    code = f"from fedgrid.suite.data import print_checksum; print_checksum({reference_of(data)!r}, {settings!r})"
    environment = os.environ | {"PYTHONHASHSEED": "7"}
    done = subprocess.run([sys.executable, "-P", "-c", code], capture_output=True, text=True, env=environment)
    last = (done.stderr.strip().splitlines() or [""])[-1]
    expect(done.returncode == 0, f"loading it in another process fails: {last}")
    other = done.stdout.strip() == checksum_of(loaded(data).parts)
    expect(other, "another process loads other images; sort what comes from sets, folders and hashes")


def reference_of(data: DataSet) -> str:
    """The name of a data set of the package, or the path of another's file."""
    module = type(data).__module__
    return data.name if module.startswith("fedgrid.data.") else str(sys.modules[module].__file__)


def print_checksum(reference: str, settings: str) -> None:
    """Prints the checksum of a data set with settings in JSON."""
    cls: Any = load_file(reference) if reference.endswith(".py") else load("data", reference)
    print(checksum_of(cls(**json.loads(settings)).load(root(), None).parts))


@check("it is stored and read back without loss", DATA)
def test_it_is_stored_without_loss(data: DataSet, tmp_path: Path) -> None:
    files = {part: tmp_path / f"{part}.parquet" for part in PARTS}
    convert(data, root(), None, files)
    labels, facts = store.read_labels(files)
    whole = np.concatenate([loaded(data).parts[part].labels for part in PARTS])
    expect(bool((labels.labels == whole).all()), "the labels that are stored are not those that were loaded")
    shape = list(data.info(root()).shape)
    expect(facts["shape"] == shape, f"the images that are stored are {facts['shape']}, not {shape} as declared")
