"""``fedgrid inspect`` and ``fedgrid export-partition``, used as a user would."""

import argparse
import json

import numpy as np
import pyarrow as pa
import pytest

from fedgrid.cli import partitions
from fedgrid.cli.parsing import Parser
from fedgrid.errors import UserError
from fedgrid.files import write_table
from fedgrid.partition.common.publish import digest_of
from fedgrid.partition.common.statistics import statistics


def run(capsys, *words):
    """What a command prints."""
    parser = argparse.ArgumentParser()
    partitions.add_commands(parser.add_subparsers(required=True, parser_class=Parser))
    arguments = parser.parse_args([str(word) for word in words])
    assert arguments.call(arguments) == 0
    return capsys.readouterr().out


def write(file, counts, shared=0):
    """A partition with `counts` [clients, classes] training images, half as many for testing or `shared` ones."""
    counts = np.asarray(counts)
    place = np.stack(np.indices(counts.shape), axis=-1).reshape(-1, 2)
    train = np.repeat(place, counts.ravel(), axis=0)
    test = np.repeat(place, counts.ravel() // 2, axis=0) if not shared else np.array([[-1, 0]] * shared)
    rows = np.concatenate([train, test])
    columns = {
        "client": pa.array(rows[:, 0], pa.int32()),
        "split": pa.array(["train"] * len(train) + ["test"] * len(test)).dictionary_encode(),
        "index": pa.array(np.arange(len(rows)), pa.int64()),
        "label": pa.array(rows[:, 1], pa.int32()),
        "domain": pa.nulls(len(rows), pa.string()).dictionary_encode(),
    }
    table = pa.table(columns)
    facts = {
        "clients": len(counts),
        "words": "Dirichlet β=0.1",
        "data": "digits",
        "data_checksum": "0123456789abcdef" * 4,
    }
    facts |= {"classes": [f"c{c}" for c in range(counts.shape[1])], "domains": [], "digest": digest_of(table)}
    write_table(file, table, facts | {"test": "official" if shared else "own", "spec": {}})
    return table


def test_inspect_says_what_a_partition_is(tmp_path, capsys):
    counts = np.zeros((20, 10), int)
    counts[np.arange(20), np.arange(20) % 10] = 10
    counts[3] = [0, 40, 2, 3, 5, 0, 0, 0, 0, 0]
    counts[4] = 0
    write(tmp_path / "p.parquet", counts)
    lines = run(capsys, "inspect", tmp_path / "p.parquet").splitlines()
    assert len(lines) <= 40 and max(map(len, lines)) <= 120
    text = "\n".join(lines)
    assert lines[0] == "Dirichlet β=0.1"
    assert "digits, checksum 0123456789abcdef\n" in text
    assert "20, 1 without training images" in text
    assert "0 to 50 training and validation images, median 10" in text
    assert "0 to 4 of 10 with a client" in text
    table = [line.split() for line in lines]
    assert ["3", "50", "0", "24", "4", "c1:", "40,", "c4:", "5,", "c3:", "3,", "…"] in table
    assert ["4", "0", "0", "0", "0"] in table
    assert ["19", "10", "0", "5", "1", "c9:", "10"] in table


def test_inspect_of_many_clients_is_short(tmp_path, capsys):
    write(tmp_path / "p.parquet", np.ones((300, 2), int), shared=7)
    lines = run(capsys, "inspect", tmp_path / "p.parquet").splitlines()
    assert len(lines) <= 40
    listed = [line.split()[0] for line in lines if line.split() and line.split()[0].isdigit()]
    assert listed == [str(n) for n in (*range(10), *range(290, 300))]
    assert any("280 more" in line for line in lines)
    assert any("7 test (official, one test set for all clients)" in line for line in lines)


def test_inspect_json_is_the_statistics(tmp_path, capsys):
    table = write(tmp_path / "p.parquet", [[3, 1], [0, 4]])
    actual = json.loads(run(capsys, "inspect", tmp_path / "p.parquet", "--json"))
    assert actual == statistics(table, 2, 2)


def test_a_single_client_has_no_distances(tmp_path, capsys):
    write(tmp_path / "p.parquet", [[3, 1]])
    assert "distances" not in run(capsys, "inspect", tmp_path / "p.parquet")


def test_what_is_exported_can_be_inspected(tmp_path, capsys):
    write(tmp_path / "p.parquet", [[3, 1], [0, 4]])
    copy = run(capsys, "export-partition", tmp_path / "p.parquet", tmp_path / "out").strip()
    assert run(capsys, "inspect", copy) == run(capsys, "inspect", tmp_path / "p.parquet")


@pytest.mark.parametrize("words", [["inspect", "none.parquet"], ["export-partition", "none.parquet", "out"]])
def test_mistakes_are_one_sentence(tmp_path, capsys, monkeypatch, words):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UserError, match=r"^none\.parquet does not exist$"):
        run(capsys, *words)
    assert list(tmp_path.iterdir()) == []
