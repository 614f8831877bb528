"""What counts as a difference between the files that two trees wrote."""

import pyarrow as pa
import pytest

from benchmarks.numerics.comparison import differences
from fedgrid.files import as_json, write_table, write_text

FACTS = {"key": "a", "note": "a copy", "mean": [0.5], "report": {"missing": 0, "words": "none"}}


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({}, []),
        ({"key": "b", "note": "another copy", "report": {"missing": 0, "words": "no image"}}, []),
        ({"mean": [0.4]}, ["d.train.parquet: other mean"]),
        ({"report": {"missing": 1}, "scale": 1}, ["d.train.parquet: other report, scale"]),
    ],
)
def test_numbers_in_what_a_file_says_of_itself_are_compared_and_words_are_not(tmp_path, changes, words):
    for name, facts in (("before", FACTS), ("now", FACTS | changes)):
        write_table(tmp_path / name / "d.train.parquet", pa.table({"label": [1, 2]}), facts)
    assert list(differences(tmp_path / "before", tmp_path / "now")) == words


def test_statistics_of_partitions_are_compared(tmp_path):
    for name, clients in (("before", 2), ("now", 3)):
        write_text(tmp_path / name / "p.partition.json", as_json({"key": name, "clients": clients}))
    assert list(differences(tmp_path / "before", tmp_path / "now")) == ["p.partition.json: other statistics"]
