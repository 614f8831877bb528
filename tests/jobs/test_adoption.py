"""Results of earlier code are carried where the evidence holds, never elsewhere, and can be taken back."""

import shutil

import plugins
import pytest
from earlier import EARLIER, edited, make_earlier, train_all
from studies import prepared, study_of

from fedgrid.files import read_metadata, read_table, write_table
from fedgrid.grid.adoption.candidates import groups
from fedgrid.jobs import models_file
from fedgrid.jobs.adoption import adopt, undo
from fedgrid.jobs.machine import processor
from fedgrid.jobs.retraining import obstacles


@pytest.fixture
def study(tmp_path, monkeypatch):
    """Three trained cells of FedAvg, which differ in their seeds."""
    monkeypatch.chdir(tmp_path)
    study = prepared(study_of(methods=["fedavg"], seeds=[0, 1, 2], artifacts=["representations"]))
    train_all(study)
    return study


def adopted(study, least=1, cores=1):
    """The verdicts on all groups."""
    return list(adopt(groups(study.cells), [study], cores, least, lambda line: None))


def numbers(study):
    return {cell.key: read_table(cell.file)[0] for cell in study.cells}


def test_checked_cells_vouch_for_the_others(study):
    before = numbers(study)
    for cell in study.cells:
        make_earlier(cell)
    (verdict,) = adopted(study)
    assert (verdict.refused, verdict.checked, verdict.trained, verdict.carried) == ("", 1, 1, 2)
    assert all(cell.done for cell in study.cells) and numbers(study) == before
    chains = [read_metadata(cell.file).get("adopted", []) for cell in study.cells]
    (trained,) = (cell.key for cell, chain in zip(study.cells, chains, strict=True) if not chain)
    entries = [entry for chain in chains for entry in chain]
    assert [entry["earlier"]["code"] for entry in entries] == [EARLIER] * 2
    assert all(
        entry["checked"] == [{"key": trained, "earlier": trained[::-1]}] and entry["of"] == 3 for entry in entries
    )
    metadata = read_metadata(study.cells[0].file)
    assert (metadata["key"], metadata["code"]) == (study.cells[0].key, study.cells[0].code)


def test_cells_of_a_model_in_a_file_of_the_users_own_are_checked_and_carried(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    plug = plugins.write(tmp_path)
    study = prepared(
        study_of(
            seeds=[0, 1],
            methods=["fedavg"],
            model={"name": str(plug / "net.py"), "hidden": 4, "features": 4},
        )
    )
    train_all(study)
    for cell in study.cells:
        make_earlier(cell)
    (verdict,) = adopted(study)
    assert (verdict.refused, verdict.carried) == ("", 1)


@pytest.mark.full
def test_carried_models_name_their_new_key_and_have_the_same_tensors(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    study = prepared(study_of(methods=["fedper"], seeds=[0, 1], artifacts=["models"]))
    train_all(study)
    files = [cell.kept_beside(cell.file)["models"] for cell in study.cells]
    before = [models_file.read(file).header for file in files]
    for cell in study.cells:
        make_earlier(cell)
    earlier = {file: models_file.read(file).header for file in study.store.glob("cells/**/*.safetensors")}
    assert {header["key"] for header in earlier.values()} == {cell.key[::-1] for cell in study.cells}
    assert adopted(study)[0].carried == 1
    for file, header in zip(files, before, strict=True):
        models_file.read(file).check()
        assert models_file.read(file).header == header
    undo(study.store)
    assert {file: models_file.read(file).header for file in earlier} == earlier
    assert sum(file.is_file() for file in files) == 1


@pytest.mark.full
def test_models_with_another_bit_refuse_the_group(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    study = prepared(study_of(methods=["fedavg"], seeds=[0, 1], artifacts=["models"]))
    train_all(study)
    for cell in study.cells:
        make_earlier(cell)
    kept = [next(cell.file.parent.glob(f"s{cell.seed}-{cell.key[::-1]}.models.safetensors")) for cell in study.cells]
    contents = [file.read_bytes() for file in kept]
    for file, content in zip(kept, reversed(contents), strict=True):
        file.write_bytes(content)
    (verdict,) = adopted(study)
    assert verdict.refused.endswith("the artifact 'models'")


def test_one_differing_bit_of_a_checked_cell_refuses_the_group(study):
    for cell in study.cells:
        make_earlier(cell, edited(2, "loss_trained"))
    (verdict,) = adopted(study)
    assert "round 2, loss_trained of client 0: " in verdict.refused and verdict.carried == 0
    assert sum(cell.done for cell in study.cells) == 1  # the one that was trained


@pytest.mark.full
def test_another_start_of_any_cell_refuses_the_group(study):
    for number, cell in enumerate(study.cells):
        make_earlier(cell, edited(0, "test_samples") if number == 1 else None)
    actual = groups(study.cells)
    (verdict,) = adopted(study)
    unchecked = [candidate.cell for candidate in actual[0].candidates if not candidate.cell.done]
    assert "round 0, test_samples of client 0: " in verdict.refused and len(unchecked) == 2


@pytest.mark.full
def test_other_rows_of_a_partition_refuse_the_group(study, tmp_path):
    for cell in study.cells:
        make_earlier(cell)
    store = tmp_path / "colleague"
    shutil.move(study.store / "cells", store / "cells")
    other = prepared(study_of(methods=["fedavg"], seeds=[7], results=str(tmp_path / "other"))).cells[0].partition
    for cell in study.cells:
        table, about = read_table(other.file)
        write_table(store / cell.partition.file.relative_to(study.store), table, about | {"spec": cell.partition.spec})
    verdicts = list(adopt(groups(study.cells, store), [study], 1, 1, lambda line: None))
    assert "the partition: rows " in verdicts[0].refused and not verdicts[0].carried


def test_an_artifact_with_another_bit_refuses_the_group(study):
    cells = study.cells
    for cell in cells:
        make_earlier(cell)
    kept = [next(cell.file.parent.glob(f"s{cell.seed}-{cell.key[::-1]}.representations.parquet")) for cell in cells]
    contents = [file.read_bytes() for file in kept]
    for file, content in zip(kept, contents[1:] + contents[:1], strict=True):
        file.write_bytes(content)
    (verdict,) = adopted(study)
    assert verdict.refused.endswith("the artifact 'representations'")


def test_partitions_are_built_before_cells_are_chosen_by_their_clients(study, monkeypatch):
    for cell in study.cells:
        make_earlier(cell)
        cell.partition.file.unlink()

    def chosen(group, least):
        assert len(group.candidates) == 3
        assert all(candidate.cell.partition.file.is_file() for candidate in group.candidates)
        raise InterruptedError

    monkeypatch.setattr("fedgrid.jobs.adoption.choose_cells_to_check", chosen)
    with pytest.raises(InterruptedError):
        adopted(study)


@pytest.mark.full
def test_what_was_trained_for_a_check_is_not_trained_again(study):
    for cell in study.cells:
        make_earlier(cell)
    (first,) = adopted(study)
    for cell in study.cells:
        if "adopted" in read_metadata(cell.file):  # as if the call had been killed before they were carried
            cell.file.unlink()
    (again,) = adopted(study)
    assert (first.trained, again.trained, again.checked, again.carried) == (1, 0, 1, 2)


def test_results_of_another_processor_wait(study):
    for number, cell in enumerate(study.cells):
        hardware = read_metadata(cell.file)["hardware"]
        make_earlier(cell, hardware=hardware | ({"cpu": "another processor"} if number else {}))
    here, elsewhere = sorted(groups(study.cells), key=lambda group: len(group.candidates))
    assert obstacles(here.circumstances) == []
    assert obstacles(elsewhere.circumstances) == [f"processor another processor (here {processor()})"]


@pytest.mark.full
def test_an_instruction_set_that_was_not_recorded_is_no_obstacle(study):
    for cell in study.cells:
        hardware = dict(read_metadata(cell.file)["hardware"])
        del hardware["instructions"]
        make_earlier(cell, hardware=hardware)
    assert not any(obstacles(group.circumstances) for group in groups(study.cells))
    (verdict,) = adopted(study)
    assert verdict.carried == 2


@pytest.mark.full
@pytest.mark.parametrize("pruned", [False, True])
def test_an_adoption_can_be_taken_back(study, pruned):
    files = [make_earlier(cell) for cell in study.cells]
    before = [read_table(file) for file in files]
    adopted(study)
    if pruned:
        for file in study.store.glob("cells/**/*.parquet"):
            if not any(file in cell.files for cell in study.cells):
                file.unlink()
    carried = {cell.key for cell in study.cells if "adopted" in read_metadata(cell.file)}
    assert len(undo(study.store)) == 2 and {cell.key for cell in study.cells if not cell.done} == carried
    for cell, file, content in zip(study.cells, files, before, strict=True):
        if cell.key in carried:
            assert read_table(file) == content
            assert file.with_suffix(".representations.parquet").is_file()
    assert undo(study.store) == []
