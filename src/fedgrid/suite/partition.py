"""What every kind of heterogeneity does: it deals out each image once, by settings and seed alone, as it promises."""

import math
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import fields, replace
from signal import ITIMER_REAL, SIGALRM, setitimer, signal
from typing import Any

import numpy as np
import pandas as pd

from fedgrid.components import describe
from fedgrid.data.common.images import DatasetInfo
from fedgrid.data.common.store import Labels
from fedgrid.errors import UserError
from fedgrid.partition.base import Partition, SampledPartition
from fedgrid.partition.common.dealt_rows import flaw_of
from fedgrid.partition.common.rows import EVERYONE, SPLITS
from fedgrid.suite.expectations import PARTITION, Unmet, check, check_documented, expect, expected, no_global_draws

DOMAINS = ("red", "green", "blue")
CLASSES = 10
COLUMN, VALUES = "writer", 20
"A column that the data keep, for clients that are its values, and how many values it has."
PATIENCE = 20
"Seconds that dealing out a few thousand images may take."
NEARLY = 0.1
"Of an estimate, by which the number of images may be off."
ALONE = "draw from the generator that `owners` is given, and from nothing else"


def labels_of(images: int) -> Labels:
    """The labels of images of `CLASSES` classes and three domains, equally many of each; half of them for training.

    They keep a column, of whose values each has images of all classes and domains.
    """
    number = np.arange(images)
    places = number // (CLASSES * len(DOMAINS)) % VALUES
    names = tuple(f"{COLUMN} {value:02}" for value in np.unique(places))
    kept: dict[str, Any] = {"kept": {COLUMN: places}, "kept_names": {COLUMN: names}}
    return Labels(number % CLASSES, images // 2, CLASSES, number // CLASSES % len(DOMAINS), DOMAINS, **kept)


def info_of(pool: Labels) -> DatasetInfo:
    """The form of the data set that these are the labels of."""
    images = {"train": pool.train, "test": len(pool.labels) - pool.train}
    classes = tuple(map(str, range(pool.classes)))
    kept = {column: len(names) for column, names in pool.kept_names.items()}
    return DatasetInfo(images, (8, 8, 1), classes, pool.domain_names, modalities=pool.modalities, kept=kept)


POOL = labels_of(3_000)


def dealt(partition: Partition, seed: int = 0, pool: Labels = POOL) -> pd.DataFrame:
    """The rows of a partition, checked against what holds for every one."""
    with in_time():
        partition.check_feasible(info_of(pool), [seed])
        table = partition.split(pool, seed)
    flaw = flaw_of(table, partition.about(pool, seed), pool)
    expect(not flaw, flaw)
    frame: pd.DataFrame = table.to_pandas()
    assert pool.domains is not None
    domains = np.array(DOMAINS)[pool.domains[frame["index"]]]
    expect(bool((domains == frame["domain"]).all()), "a row has another domain than its image")
    return frame


@contextmanager
def in_time() -> Iterator[None]:
    """Fails where what is within takes more than `PATIENCE` seconds."""

    def late(*_: Any) -> None:
        raise Unmet(f"dealing out {len(POOL.labels):,} images takes more than {PATIENCE} seconds")

    before = signal(SIGALRM, late)
    setitimer(ITIMER_REAL, PATIENCE)
    try:
        yield
    finally:
        setitimer(ITIMER_REAL, 0)
        signal(SIGALRM, before)


@check("title, source and settings are documented", PARTITION)
def test_it_says_what_it_is(partition: Partition) -> None:
    cls = type(partition)
    check_documented(cls)
    expect(bool(cls.source), "its class states no source = 'Authors, Venue Year'")
    unknown = sorted(set(cls.named) - {field.name for field in fields(partition)})
    expect(not unknown, f"`named` lists {', '.join(unknown)}, which are not among its settings")
    expect(bool(partition.sentence()), "`description` has to say the setting as a person says it")


@check("every image is dealt out once, to a client that there is", PARTITION)
def test_no_image_is_dealt_out_twice(partition: Partition) -> None:
    frame, about = dealt(partition), partition.about(POOL, 0)
    clients = partition.expected(info_of(POOL), 0).clients
    expect(about["clients"] == clients, f"`about` says {about['clients']} clients, `expected` {clients}")
    expect(about["test"] == partition.tested(0), "`about` and `tested` name different test images")
    empty = sorted(set(range(clients)) - set(frame["client"]))
    expect(not empty, f"client {empty[:1]} got no image of {len(POOL.labels):,}")


@check("the seed alone decides who holds what", PARTITION)
def test_the_seed_decides(partition: Partition) -> None:
    with no_global_draws(ALONE):
        first = dealt(partition)
    with no_global_draws(ALONE):
        again = dealt(partition)
    expect(first.equals(again), f"the same seed gave another partition; {ALONE}")


@check("another seed deals out otherwise", PARTITION)
def test_another_seed_differs(partition: Partition) -> None:
    if isinstance(partition, SampledPartition):
        other = not dealt(partition).equals(dealt(partition, seed=1))
        expect(other, "seeds 0 and 1 gave the same partition; draw from the generator that `owners` is given")


@check("as many images are dealt out as `expected` says", PARTITION)
def test_expected_numbers(partition: Partition) -> None:
    for changed in variants(partition):
        frame, estimates = dealt(changed), changed.expected(info_of(POOL), 0)
        shared = int((frame["client"] == EVERYONE).sum())
        numbers = frame.loc[frame["client"] != EVERYONE, "split"].value_counts()
        actual = {name: int(numbers.get(name, 0)) for name in SPLITS}
        actual["test"] += estimates.clients * shared
        for name in SPLITS:
            estimate = getattr(estimates, name)
            statement = f"{words_of(changed)}: `expected` says {estimate} {name} images"
            # every client's numbers are rounded, and labels may decide
            nearly = max(2 * estimates.clients, NEARLY * estimate)
            far = abs(actual[name] - estimate) > nearly
            expect(not far, f"{statement}, {actual[name]} were dealt out; override `sizes` to say how many")


def variants(partition: Partition) -> list[Partition]:
    """The partition, and the same with other test images and validation, where it has these settings."""
    if not isinstance(partition, SampledPartition):
        return [partition]
    changes: list[dict[str, Any]] = [{"test": test} for test in ("own", "official", "weighted")]
    return [replace(partition, **change) for change in (*changes, {"validation": 0.2}, {"fraction": 0.5})]


def words_of(partition: Partition) -> str:
    """The settings that `variants` change."""
    names = [name for name in ("test", "validation", "fraction") if hasattr(partition, name)]
    return ", ".join(f"{name}={getattr(partition, name)!r}" for name in names)


@check("clients are tested on the images that `test` names", PARTITION)
def test_test_images(partition: Partition) -> None:
    for changed in variants(partition):
        with expected(words_of(changed)):
            check_test_images(changed, dealt(changed))


def check_test_images(partition: Partition, frame: pd.DataFrame) -> None:
    """With ``own`` each client has its own; otherwise all share the published test part, or a fraction of it."""
    shared, own = frame[frame["client"] == EVERYONE], frame[frame["client"] != EVERYONE]
    held_out = partition.validated(0) or not (own["split"] == "validation").any()
    expect(bool(held_out), "images are held out for validation, but `validated` says that none are")
    if partition.tested(0) == "own":
        expect(shared.empty, f"clients have test images of their own, but {len(shared)} belong to all of them")
        return
    expect(not (own["split"] == "test").any(), "clients share the test images, but some have test images of their own")
    expect(bool((shared["split"] == "test").all()), "what belongs to all clients are test images")
    expect(bool((own["index"] < POOL.train).all()), "a client trains on an image of the published test part")
    expect(bool((shared["index"] >= POOL.train).all()), "clients are tested on an image of the training part")
    if isinstance(partition, SampledPartition):
        wanted = math.ceil(partition.fraction * (len(POOL.labels) - POOL.train))
        expect(len(shared) == wanted, f"{wanted} test images are shared by all clients, not {len(shared)}")


@check("too few images for the clients are refused in a sentence, or dealt out", PARTITION)
def test_few_images(partition: Partition) -> None:
    clients = partition.expected(info_of(POOL), 0).clients
    for images in (0, 2, 2 * max(clients - 1, 1)):
        deal_or_refuse(partition, labels_of(images))


@check("too many clients for the images are refused in a sentence, or dealt out", PARTITION)
def test_many_clients(partition: Partition) -> None:
    (setting,) = [p for p in describe(type(partition))["parameters"] if p["name"] == "clients"] or [{"high": 0}]
    if "high" not in setting:
        deal_or_refuse(replace(partition, clients=30_000), POOL)  # type: ignore[call-arg]


def deal_or_refuse(partition: Partition, pool: Labels) -> None:
    """Either the rows are as they have to be, or there is a UserError of one sentence; in time in any case."""
    try:
        dealt(partition, pool=pool)
    except UserError as error:
        expect(bool(str(error)) and "\n" not in str(error), "a refusal is one sentence: raise UserError('partition.…')")
