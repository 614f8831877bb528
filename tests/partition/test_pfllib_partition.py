"""FedAvg on a folder of PFLlib's, and on the same clients written down by hand."""

import csv

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import fedgrid
from benchmarks.numerics.partitions import write_pfllib

CLIENTS, OF_EACH, TRAIN = 5, 60, 60_000


@pytest.mark.full
def test_fedavg_from_pfllib_is_fedavg_from_the_same_clients(working_folder, monkeypatch, shared_data):
    monkeypatch.setenv("FEDGRID_DATA", str(shared_data))
    rows = pa.concat_tables([pq.read_table(shared_data / "mnist" / f"{part}.parquet") for part in ("train", "test")])
    chosen = np.random.default_rng(0).choice(len(rows), CLIENTS * OF_EACH, replace=False)
    images = rows["image"].take(chosen).to_pylist()
    pixels = np.stack([np.frombuffer(image, np.uint8).reshape(28, 28, 1) for image in images])
    labels = rows["label"].take(chosen).to_numpy().astype(np.int64)
    held = write_pfllib(working_folder / "MNIST", pixels, labels, np.arange(len(chosen)).reshape(CLIENTS, OF_EACH))
    with open("hand.csv", "w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["client", "split", "index"])
        writer.writerows((client, part, chosen[row]) for (part, client), rows_of in held.items() for row in rows_of)
    assert (chosen >= TRAIN).any()  # PFLlib deals out both parts of the data set

    training = {"rounds": 3, "lr": 0.05, "batch_size": 10}
    scores = []
    for file in ("MNIST", "hand.csv"):
        cell = fedgrid.train("fedavg", data="mnist", heterogeneity={"partition": {"import": file}}, training=training)
        last = cell.values[(cell.values["round"] == 3) & (cell.values["metric"] == "accuracy_received")]
        scores.append(last.sort_values("client")["value"].to_numpy())
    first, second = scores
    assert len(first) == CLIENTS and abs(first.mean() - second.mean()) < 0.01 and first.mean() > 0.2
    assert (first == second).all()  # images, clients and their order are the same
