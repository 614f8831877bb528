"""What identifies a user's files is what they hold; what is built is what was planned."""

import os
import shutil
import time

import numpy as np
import pytest
from PIL import Image
from studies import FOUR_CELLS, plan_of, study_of

from benchmarks.numerics.originals import small_noise, write_office
from fedgrid.data.folder import Folder
from fedgrid.data.office10 import OfficeTen
from fedgrid.data.sources import digests
from fedgrid.errors import UserError
from fedgrid.jobs import dataset


@pytest.fixture
def top(working_folder, monkeypatch):
    """Two classes of eight pictures each, all files of one size; the cache is empty."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(working_folder / "cache"))
    for number in range(16):
        file = working_folder / "mine" / ("cat" if number < 8 else "dog") / f"{number % 8}.bmp"
        file.parent.mkdir(parents=True, exist_ok=True)
        Image.new("L", (8, 8), number).save(file)
    return working_folder / "mine"


def copy_of(top):
    return Folder(path=str(top)).info(None).copy


@pytest.fixture
def later(monkeypatch):
    """Lets a minute pass, so that digests are remembered."""
    clock = time.time
    return lambda: monkeypatch.setattr(digests.time, "time", lambda: clock() + 60)


def test_other_pictures_of_the_same_names_and_sizes_count(top):
    before = copy_of(top)
    for file in top.rglob("*.bmp"):
        Image.new("L", (8, 8), 200).save(file)
    assert copy_of(top) != before


def test_other_pictures_with_the_times_of_the_first_count(top, later):
    """As two archives have them whose members have one time of modification (``tar --mtime``)."""
    for file in top.rglob("*.bmp"):
        os.utime(file, (1_600_000_000, 1_600_000_000))
    later()
    before = copy_of(top)
    for file in top.rglob("*.bmp"):
        Image.new("L", (8, 8), 200).save(file)
        os.utime(file, (1_600_000_000, 1_600_000_000))
    assert copy_of(top) != before


def test_exchanged_classes_count(top, later):
    before = copy_of(top)
    later()
    assert copy_of(top) == before
    (top / "cat").rename(top / "x")
    (top / "dog").rename(top / "cat")
    (top / "x").rename(top / "dog")
    assert copy_of(top) != before


def test_a_picture_that_is_put_back_counts_as_before(top):
    before = copy_of(top)
    shutil.copytree(top, top.with_name("kept"))
    Image.new("L", (8, 8), 99).save(top / "cat" / "0.bmp")
    assert copy_of(top) != before
    shutil.rmtree(top)
    top.with_name("kept").rename(top)
    assert copy_of(top) == before


def test_unchanged_pictures_are_read_once(top, monkeypatch, later):
    read = []
    content = digests._digest
    monkeypatch.setattr(digests, "_digest", lambda file: read.append(file.name) or content(file))
    later()
    before = copy_of(top)
    assert len(read) == 16
    assert copy_of(top) == before and len(read) == 16
    (top / "cat" / "3.bmp").touch()
    assert copy_of(top) == before and read[16:] == ["3.bmp"]
    with digests.reading_again():
        assert copy_of(top) == before and len(read) == 17 + 16


def test_files_of_one_folder_that_are_asked_for_singly_are_read_once(top, monkeypatch, later):
    later()
    files = sorted(top.rglob("*.bmp"))
    before = [digests.digest(file) for file in files]
    monkeypatch.setattr(digests, "_digest", lambda file: pytest.fail(f"{file} is read again"))
    assert [digests.digest(file) for file in files] == before


def test_a_damaged_cache_changes_nothing(top, later):
    later()
    before = copy_of(top)
    (cache,) = (top.parent / "cache").rglob("digests/*.json")
    cache.write_text(cache.read_text().replace("a", "b"))
    assert copy_of(top) == before


def planned(more=""):
    """A study of the pictures: its data, images before features, and the plan of a run."""
    entry = f"data: {{name: mine, channels: 1{more}}}"
    study = study_of(FOUR_CELLS.replace("data: digits", entry).replace("clients: 4", "clients: 1"))
    return study.cells[0].partition.data.stages, plan_of(study)


def assert_refused(data, plan, capsys):
    assert dataset.main([str(plan), data.key]) == 2
    assert "edited since planning" in capsys.readouterr().err
    assert not data.built


def test_what_is_edited_after_the_plan_is_not_built(top, capsys):
    (data,), plan = planned()
    Image.new("L", (8, 8), 99).save(top / "cat" / "0.bmp")
    assert_refused(data, plan, capsys)


def test_what_is_built_is_read_again_whatever_the_cache_believes(top, later, monkeypatch, capsys, in_job):
    """Where even ctime does not tell, as on file systems that do not keep it, one key never means two data sets."""
    later()
    (data,), plan = planned()
    states = {file: file.stat() for file in top.rglob("*.bmp")}
    for file in states:
        Image.new("L", (8, 8), 200).save(file)
    monkeypatch.setattr(digests, "_stat", lambda file: states[file.resolve()])
    assert copy_of(top) == data.copy
    assert_refused(data, plan, capsys)


def test_weights_that_are_edited_after_the_plan_make_no_features(top, capsys):
    weights = top.parent / "vit.pth"
    weights.write_bytes(b"1")
    (images, data), plan = planned(f", features: {{backbone: vit_tiny_patch16_224, weights: {weights}}}")
    weights.write_bytes(b"2")
    assert dataset.main([str(plan), images.key]) == 0
    assert_refused(data, plan, capsys)


def test_an_unpack_that_is_not_whole_is_refused(tmp_path):
    write_office(tmp_path / "office10", [6], small_noise)
    with pytest.raises(UserError, match=r"160 of 1,897 train images; put the folders"):
        OfficeTen().load(tmp_path, None)


def test_links_that_lead_round_in_a_circle_are_refused(top):
    (top / "cat" / "again").symlink_to(top)
    with pytest.raises(UserError, match="is a link to a folder"):
        copy_of(top)


def test_a_pipe_is_no_picture(top):
    before = copy_of(top)
    os.mkfifo(top / "cat" / "pipe.png")
    assert copy_of(top) == before


def test_sixteen_bits_are_scaled(tmp_path):
    (tmp_path / "cat").mkdir()
    Image.fromarray(np.array([[0, 257, 128 * 257, 65535]], np.uint16)).save(tmp_path / "cat" / "a.png")
    actual = Folder(path=str(tmp_path), channels=1).load(None, None)
    assert actual.parts["train"].pixels.flatten().tolist() == [0, 1, 128, 255]
    assert actual.note == "1 of 1 pictures: 16 bits a channel become 8"


def test_what_pictures_lose_is_reported_once(tmp_path, capsys):
    for number in range(3):
        file = tmp_path / "cat" / f"{number}.png"
        file.parent.mkdir(exist_ok=True)
        Image.new("RGBA" if number else "RGB", (4, 4)).save(file)
    assert Folder(path=str(tmp_path)).load(None, None).note == "2 of 3 pictures: transparency is left out"
