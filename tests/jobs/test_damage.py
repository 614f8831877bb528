"""Files of a store that are no longer what was written: the right numbers, or one sentence and the file made again."""

import random
import shutil
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
import torch
from studies import FOUR_CELLS, plan_of, prepared, study_of
from tiers import every_third

from fedgrid.analysis.pages import build
from fedgrid.analysis.scores.collect import collect
from fedgrid.cli.main import main
from fedgrid.engine.local import client_data
from fedgrid.errors import Damaged, UserError
from fedgrid.files import read_table, write_table
from fedgrid.grid.plan import manifest, plan_file
from fedgrid.grid.plan.manifest_model import read_manifest
from fedgrid.jobs import cell as cell_job
from fedgrid.jobs import dataset, partition
from fedgrid.jobs.status import Status

FLIPS = 200


class Store:
    """A finished store in the working folder."""

    def __init__(self):
        self.study = prepared(study_of(FOUR_CELLS))
        self.plan = plan_of(self.study).resolve()
        for cell in self.study.cells:
            assert cell_job.main([str(self.plan), cell.key]) == 0
        (experiment,) = self.study.experiments
        self.manifest = manifest.file(self.study, experiment)
        manifest.write(self.study, self.manifest)
        self.results = self.study.folder / "results.parquet"
        self.collected()
        Status(self.study.cells[0].status, 2).running()
        (self.study.store / ".lock").write_text("")

    @property
    def files(self):
        """Those that something is read from, in an order that is always the same."""
        kinds = {".parquet", ".json"}
        actual = [file for file in sorted(Path("results").rglob("*")) if file.is_file() and file.suffix in kinds]
        return [file for file in actual if not ("partitions" in file.parts and file.suffix == ".json")]

    @property
    def of_each_kind(self):
        return list({(file.parts[:3], file.suffix): file for file in self.files}.values())

    def collected(self):
        collect(read_manifest(self.manifest), self.results)
        return read_table(self.results)[0]

    def numbers(self):
        """All that cells, tables and figures take from the store, by what it is."""
        study = plan_file.read(self.plan).study
        actual = {"rows": self.collected(), "plan": plan_file.Plan(study).content()}
        for planned in study.partitions.values():
            planned.data.check()
            planned.check()
            loaded = client_data.load(planned.data.files, planned.file, torch.device("cpu"))
            tensors = [loaded.images, loaded.labels, loaded.centre, *loaded.train, *loaded.test]
            actual[planned.seed] = [tensor.tolist() for tensor in tensors]
        return actual


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    folder = tmp_path_factory.mktemp("store")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        yield Store()


@pytest.fixture
def numbers(store):
    """Those of the store as it is; it is put back after the test."""
    shutil.copytree("results", "kept")
    yield store.numbers()
    shutil.rmtree("results")
    shutil.move("kept", "results")


def is_one_sentence(error):
    text = str(error)
    return "\n" not in text and len(text) < 500 and "results" in text


@pytest.mark.full
def test_flipped_bits_never_give_other_numbers(store, numbers):
    draw, refused = random.Random(0), 0
    files = store.files
    for number in range(FLIPS):
        file = files[number % len(files)]
        content = bytearray(file.read_bytes())
        place = draw.randrange(len(content))
        content[place] ^= 1 << draw.randrange(8)
        before = file.read_bytes()
        file.write_bytes(content)
        try:
            assert store.numbers() == numbers, f"{file}, byte {place}"
        except UserError as error:
            refused += 1
            assert is_one_sentence(error), error
        file.write_bytes(before)
    assert refused > FLIPS / 4


def moved(table, name, values):
    return table.set_column(table.column_names.index(name), name, pa.array(values, table[name].type))


def rewritten(file, change):
    """The rows changed by somebody who keeps the metadata as they are."""
    table = pq.read_table(file)
    pq.write_table(change(table).replace_schema_metadata(table.schema.metadata), file)


def resealed(file, change):
    """The metadata changed by somebody who writes the file as fedgrid does."""
    table, metadata = read_table(file)
    write_table(file, table, metadata | change)


HANDS = {
    "rows moved between clients": lambda s: rewritten(s.part, lambda t: moved(t, "client", np.roll(t["client"], 1))),
    "training and test images swapped": lambda s: rewritten(
        s.part, lambda t: moved(t, "split", [{"train": "test", "test": "train"}[x] for x in t["split"].to_pylist()])
    ),
    "a row less": lambda s: rewritten(s.part, lambda t: t.slice(1)),
    "labels plus one": lambda s: rewritten(
        s.data["train"], lambda t: moved(t, "label", [(x + 1) % 10 for x in t["label"].to_pylist()])
    ),
    "another image": lambda s: rewritten(
        s.data["train"], lambda t: moved(t, "image", [bytes(64), *t["image"].to_pylist()[1:]])
    ),
    "a better score": lambda s: rewritten(s.cell, lambda t: moved(t, "value", pc.add(t["value"], 0.01))),
    "a seed's partition for another's": lambda s: shutil.copy(s.parts[0], s.parts[1]),
    "the test part for the training part": lambda s: shutil.copy(s.data["test"], s.data["train"]),
    "a cell for another one": lambda s: shutil.copy(s.cells[1], s.cell),
    "another data set's key": lambda s: resealed(s.data["train"], {"key": "0" * 16}),
    "a plan with another rate": lambda s: s.plan.write_text(s.plan.read_text().replace('"lr": 0.05', '"lr": 0.06')),
    "a manifest with other words": lambda s: s.manifest.write_text(s.manifest.read_text().replace("local", "LOCAL")),
}


@pytest.mark.parametrize("hand", HANDS)
def test_edits_by_hand_are_noticed(store, numbers, hand):
    store.parts = [planned.file for planned in store.study.partitions.values()]
    store.cells = [cell.file for cell in store.study.cells]
    store.part, store.cell = store.parts[0], store.cells[0]
    store.data = store.study.cells[0].partition.data.files
    kept = store.plan.read_text()
    HANDS[hand](store)
    with pytest.raises(Damaged) as refused:
        store.numbers()
    store.plan.write_text(kept)
    assert is_one_sentence(refused.value)


def spoilt(file):
    file.write_bytes(file.read_bytes()[:-9] + b"123456789")


def test_the_same_commands_make_damaged_files_again(store, numbers, capsys):
    """A cell that meets a damaged file removes it; what made it makes it again, and then the cell is as it was."""
    cell = store.study.cells[0]
    planned, data = cell.partition, cell.partition.data
    plan_ = str(store.plan)
    steps = {
        planned.file: lambda: partition.main([plan_, planned.key, str(planned.seed)]),
        data.files["train"]: lambda: dataset.main([plan_, data.key]),
    }
    for file, make in steps.items():
        cell.file.unlink()
        spoilt(file)
        assert cell_job.main([plan_, cell.key]) == 2
        output = capsys.readouterr().err
        assert output.count("\n") == 1 and f"{file}: damaged" in output and "removed" in output
        assert not file.exists() and not cell.file.exists()
        assert make() == 0 and cell_job.main([plan_, cell.key]) == 0
        assert store.numbers() == numbers
    spoilt(cell.file)
    assert build.main([str(store.manifest)]) == 2
    assert not cell.file.exists()
    assert cell_job.main([plan_, cell.key]) == 0
    assert store.numbers() == numbers


def test_a_file_that_cannot_be_read_is_left_alone(store, numbers, capsys, monkeypatch, in_job):
    """The disk may be at fault, or the rights; the file may be as good as ever."""

    def refused(path, **options):
        raise PermissionError(13, "Permission denied", str(path))

    cell = store.study.cells[0]
    cell.file.unlink()
    with monkeypatch.context() as patch:
        patch.setattr("pyarrow.parquet.ParquetFile", refused)
        assert cell_job.main([str(store.plan), cell.key]) == 2
    assert "cannot be read (Permission denied)" in capsys.readouterr().err
    assert all(file.is_file() for file in cell.needs)


def test_other_images_than_at_first_are_refused(store, numbers, capsys, monkeypatch, in_job):
    data = store.study.cells[0].partition.data
    for file in data.files.values():
        file.unlink()
    monkeypatch.setattr("fedgrid.data.base.checksum_of", lambda parts: "f" * 64)
    monkeypatch.setattr("fedgrid.data.digits.Digits.checksum", "")
    assert dataset.main([str(store.plan), data.key]) == 2
    assert "other images than those that this store began with" in capsys.readouterr().err
    assert not any(file.exists() for file in data.files.values())


DAMAGES = {
    "empty": lambda file: file.write_bytes(b""),
    "half": lambda file: file.write_bytes(file.read_bytes()[: file.stat().st_size // 2]),
    "end lost": spoilt,
    "noughts": lambda file: file.write_bytes(bytes(file.stat().st_size)),
    "a text": lambda file: file.write_text("what is this?"),
    "letters of another encoding": lambda file: file.write_bytes(b"\xff\xfe\xe9"),
    "a list": lambda file: file.write_text("[1, 2]"),
    "an empty mapping": lambda file: file.write_text("{}"),
    "brackets without end": lambda file: file.write_text("[" * 100_000),
    "another Parquet file": lambda file: pq.write_table(pa.table({"a": [1]}), file),
}
LOOKS = (
    ["plan", "--cells", "--configfile", "study.yaml"],
    ["status", "--configfile", "study.yaml"],
    ["explain", "KEY", "--configfile", "study.yaml"],
    ["logs", "KEY", "--configfile", "study.yaml"],
    ["prune"],
)


@pytest.mark.parametrize("damage", every_third([*DAMAGES], step=6))
def test_commands_on_a_damaged_store(store, numbers, capsys, damage):
    Path("study.yaml").write_text(FOUR_CELLS)
    for file in [*store.of_each_kind, Path("results/store/.lock")]:
        before = file.read_bytes()
        DAMAGES[damage](file)
        damaged = file.read_bytes()
        for look in LOOKS:
            capsys.readouterr()
            code = main([word.replace("KEY", store.study.cells[0].key) for word in look])
            output = capsys.readouterr().err
            assert code == 0 or (code == 2 and output.startswith("fedgrid: ") and output.count("\n") == 1), output
            assert file.read_bytes() == damaged  # who only looks, leaves it
        file.write_bytes(before)


@pytest.mark.full
def test_reports_on_a_damaged_store(store, numbers, capsys):
    Path("study.yaml").write_text(FOUR_CELLS)
    for file in store.of_each_kind[::2]:
        before = file.read_bytes()
        spoilt(file)
        code = main(["report", "--configfile", "study.yaml"])
        output = capsys.readouterr().err
        assert code == 0 or (code == 2 and output.startswith("fedgrid: ") and output.count("\n") == 1), output
        file.write_bytes(before)
