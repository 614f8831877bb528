"""Every data set that is at hand, and a published partition, through the whole workflow."""

import hashlib
import json
import subprocess
import sys
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from forked import Forked

from fedgrid.data.base import convert
from fedgrid.loading import load

pytestmark = pytest.mark.usefixtures("forker")

STUDY = """
name: data
data:
  - digits
  - {name: synthetic, size: 8, train_images: 600, test_images: 200, domain_count: 2}
heterogeneity: [{partition: dirichlet, clients: 4}]
training: {rounds: 1}
methods: [fedavg]
"""
REAL = """
name: real
data: [mnist, fmnist, emnist, cifar10, cifar100, usps, mnistm, office10, cub200]
heterogeneity:
  - {partition: dirichlet, beta: 0.5, clients: 4}
model: {name: cnn, channels: 2, features: 16}
training: {rounds: 1}
methods: [fedavg]
"""


def accuracies(checkout: Forked) -> dict:
    """Final accuracies of the cells by data set."""
    actual = {}
    for file in checkout.cells():
        rows = pq.read_table(file).to_pandas()
        actual[file.parent.parent.name] = rows[rows["metric"] == "accuracy_trained"]["value"].mean()
    return actual


def thinned(file: Path, copy: Path) -> None:
    """A copy of a data set's file with about a thousand of its images, spread over all."""
    table = pq.read_table(file)
    copy.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(table.take(list(range(0, len(table), max(1, len(table) // 1000)))), copy)


@pytest.mark.full
def test_every_real_data_set_trains_a_round(tmp_path, shared_data):
    for file in shared_data.rglob("*.parquet"):
        thinned(file, tmp_path / "data" / file.relative_to(shared_data))
    checkout = Forked(tmp_path / "real", f"{REAL}\ndata_root: {tmp_path}/data\n")
    checkout.snakemake()
    actual = accuracies(checkout)
    assert len(actual) == 9
    assert all(value > 0 for value in actual.values())


@pytest.mark.full
@pytest.mark.parametrize("name", ["mnist", "cifar10"])
def test_a_large_real_data_set_is_converted_as_a_whole(tmp_path, shared_data, name):
    files = {part: tmp_path / f"{part}.parquet" for part in ("train", "test")}
    data = load("data", name)()
    convert(data, shared_data, None, files)
    assert {part: pq.read_metadata(file).num_rows for part, file in files.items()} == data.images


@pytest.mark.full
def test_features_take_the_place_of_images(tmp_path):
    study = STUDY.replace("  - digits\n", "  - {name: digits, label: random-features, features: random}\n")
    checkout = Forked(tmp_path / "features", study)
    output = checkout.snakemake("--until", "train")
    store = checkout.path / "results/store"
    assert (store / "features").is_dir(), output
    (folder,) = (store / "features").iterdir()
    metadata = json.loads(pq.read_schema(folder / "train.parquet").metadata[b"fedgrid"])
    assert metadata["shape"] == [1, 1, 192] and metadata["dtype"] == "float32"
    assert set(accuracies(checkout)) == {"digits", "synthetic"}


@pytest.mark.full
def test_a_published_partition_gives_the_same_numbers(tmp_path):
    checkout = Forked(tmp_path / "own", STUDY)
    output = checkout.snakemake("--until", "train")
    assert (checkout.path / "results/store/partitions/digits").is_dir(), output
    (partition,) = (checkout.path / "results/store/partitions/digits").rglob("seed=0.parquet")
    command = [sys.executable, "-m", "fedgrid.cli.main", "export-partition", str(partition), "published"]
    output = subprocess.run(
        command, cwd=checkout.path, env=checkout.environment, capture_output=True, text=True, check=True
    )
    published = Path(output.stdout.strip())
    before = cell_values(checkout)
    text = STUDY.replace("{partition: dirichlet, clients: 4}", f'{{partition: "file:../{published}"}}')
    (checkout.path / "config/study.yaml").write_text(text.replace("  - {name: synthetic", "  # - {name: synthetic"))
    checkout.snakemake()
    after = {key: value for key, value in cell_values(checkout).items() if key not in before}
    assert list(after.values()) == [value for key, value in before.items() if "/digits/" in key]
    assert (
        hashlib.sha256((checkout.path / published).read_bytes()).hexdigest()
        in ((checkout.path / published).parent / "SHA256SUMS").read_text()
    )


def cell_values(checkout: Forked) -> dict:
    """Scores of every cell by its file."""
    columns = ["metric", "client", "value"]
    scores = {str(file): pq.read_table(file, columns=columns).to_pylist() for file in checkout.cells()}
    return {file: [row for row in rows if "seconds" not in row["metric"]] for file, rows in scores.items()}
