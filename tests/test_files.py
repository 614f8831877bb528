"""Tables that are written part by part, and texts: read as written, and refused where no file can hold them."""

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from fedgrid.errors import Damaged, UserError
from fedgrid.files import read_metadata, read_table, write_json, write_parts, write_text

WORDS = pa.dictionary(pa.int32(), pa.string())
SCHEMA = pa.schema({"number": pa.int32(), "word": WORDS, "vector": pa.list_(pa.float32())})


def part(*numbers):
    words = pa.array([str(number) for number in numbers], pa.string()).dictionary_encode()
    vectors = pa.array([[number, 0.5] for number in numbers], SCHEMA.field("vector").type)
    return pa.record_batch([pa.array(numbers, pa.int32()), words, vectors], schema=SCHEMA)


PARTS = [part(1, 2, 3), part(), part(5), part(7, 6)]


def written(path, parts):
    write_parts(path, pa.RecordBatchReader.from_batches(SCHEMA, parts), {"kind": "numbers"})
    return path


@pytest.mark.parametrize("parts", [[], [part()], PARTS], ids=["none", "an empty one", "several"])
def test_parts_are_read_as_one_table(tmp_path, parts):
    table, metadata = read_table(written(tmp_path / "a.parquet", parts))
    assert table.to_pylist() == pa.Table.from_batches(parts, SCHEMA).to_pylist()
    assert metadata == read_metadata(tmp_path / "a.parquet") == {"kind": "numbers"}
    assert table.schema.types == SCHEMA.types


def test_a_part_is_made_when_the_one_before_is_in_the_file(tmp_path, monkeypatch):
    events, write = [], pq.ParquetWriter.write_batch
    monkeypatch.setattr(
        pq.ParquetWriter, "write_batch", lambda *given, **options: (events.append("written"), write(*given, **options))
    )
    written(tmp_path / "a.parquet", (events.append("made") or one for one in PARTS))
    assert events == ["made", "written"] * len(PARTS)


CHANGES = {
    "another number": lambda t: t.set_column(0, "number", pa.array([1, 2, 4, 5, 7, 6], pa.int32())),
    "a vector moved": lambda t: t.set_column(2, "vector", t["vector"].take(pa.array([1, 0, 2, 3, 4, 5]))),
    "a row less": lambda t: t.slice(1),
    "no rows": lambda t: t.slice(0, 0),
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_rows_that_others_changed_are_damage(tmp_path, change):
    path = written(tmp_path / "a.parquet", PARTS)
    table, footer = change(pq.read_table(path)), pq.read_metadata(path).metadata
    with pq.ParquetWriter(path, table.schema.remove_metadata()) as writer:
        start = 0
        for size in map(len, PARTS):
            writer.write_table(table.slice(start, size))
            start += size
        writer.add_key_value_metadata({name: footer[name] for name in (b"fedgrid", b"seal")})
    with pytest.raises(Damaged):
        read_table(path)


def test_an_error_between_parts_leaves_no_file(tmp_path):
    def parts():
        yield PARTS[0]
        raise ArithmeticError("no more")

    with pytest.raises(ArithmeticError):
        written(tmp_path / "a.parquet", parts())
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    "write", [lambda path, name: write_text(path, f"A\n# {name}\n"), lambda path, name: write_json(path, {"a": [name]})]
)
def test_a_name_that_is_not_utf8_is_named_and_nothing_is_written(tmp_path, write):
    with pytest.raises(UserError, match=r"a\.txt: cannot be written: '(# )?/data/caf\\udce9/b' is not UTF-8"):
        write(tmp_path / "a.txt", "/data/caf\udce9/b")
    assert not list(tmp_path.iterdir())
