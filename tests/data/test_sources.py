"""Where images come from: local copies, the authors' own layouts, and data sets composed of others."""

import json
import shutil

import numpy as np
import pyarrow.parquet as pq
import pytest
from data_files import built, files

from benchmarks.numerics.copies import write_rows
from benchmarks.numerics.originals import (
    caption_file,
    encoded,
    put,
    write_cub,
    write_domainnet,
    write_mat,
    write_mnistm,
    write_office,
    write_usps,
)
from fedgrid.data.common.images import PARTS
from fedgrid.data.cub200 import Cub200
from fedgrid.data.digit5 import DigitFive
from fedgrid.data.domainnet import LISTS, TEN, DomainNet
from fedgrid.data.families import vision
from fedgrid.data.mnistm import MnistM
from fedgrid.data.office10 import OfficeTen
from fedgrid.data.sources import names, pictures
from fedgrid.data.svhn import Svhn
from fedgrid.data.synth import SyntheticDigits
from fedgrid.data.usps import Usps
from fedgrid.errors import UserError
from fedgrid.files import read_metadata
from fedgrid.loading import load

DIGITS = json.dumps(list("0123456789"))


def colour(number, height=20, width=30):
    """A picture of one colour, which survives JPEG and resizing."""
    return np.full((height, width, 3), (number * 20 % 256, 100, 255 - number * 20 % 256), np.uint8)


def is_colour(image, number):
    return np.abs(image.astype(int) - colour(number)[0, 0]).max() <= 3


def copy(folder, rows, labels, facts=(), **columns):
    facts = {"encoding": "jpeg", "height": "32", "width": "32", "channels": "3", "classes": DIGITS} | dict(facts)
    for part in PARTS:
        write_rows(folder / f"{part}.parquet", rows, labels, facts, columns)


def test_a_jpeg_copy_is_decoded_in_order_and_says_so(tmp_path):
    rows = [encoded(colour(n, 32, 32), "jpeg") for n in (3, 1, 2)]
    copy(tmp_path / "mnistm", rows, [3, 1, 2], {"note": "Made for a test."})
    actual = MnistM().load(tmp_path, None)
    assert all(is_colour(image[16, 16], n) for image, n in zip(actual.parts["train"].pixels, (3, 1, 2), strict=True))
    assert actual.note == (
        "lossy copy (jpeg). partial copy: 3 of 59,001 training images, 3 of 9,001 test images. Made for a test."
    )


def test_a_damaged_picture_is_named_by_its_row(tmp_path):
    good = encoded(colour(1, 32, 32), "jpeg")
    copy(tmp_path / "mnistm", [good, good[:-300]], [0, 1])
    with pytest.raises(UserError, match=r"train\.parquet, row 1: incomplete or damaged picture"):
        MnistM().load(tmp_path, None)


def test_pictures_of_another_shape_than_the_metadata_say_are_refused(tmp_path):
    copy(tmp_path / "mnistm", [encoded(colour(1, 16, 16))], [0], {"encoding": "png"})
    with pytest.raises(UserError, match=r"train\.parquet: pictures have the shape \(16, 16, 3\)"):
        MnistM().load(tmp_path, None)


def test_domains_are_those_of_the_data_set_in_its_order(tmp_path):
    rows = [encoded(colour(n, 96, 96)) for n in range(4)]
    facts = {"encoding": "png", "height": "96", "width": "96", "classes": json.dumps(OfficeTen.classes)}
    copy(tmp_path / "office10", rows, [0] * 4, facts, domain=["Webcam", "elsewhere", "Amazon", "DSLR"])
    actual = OfficeTen().load(tmp_path, None)
    assert actual.domains == ("amazon", "dslr", "webcam", "elsewhere") == OfficeTen().info(tmp_path).domains
    assert actual.parts["test"].domains.tolist() == [2, 3, 0, 1]


def test_domains_in_one_part_only_are_refused(tmp_path):
    facts = {"encoding": "png", "height": "96", "width": "96"}
    copy(tmp_path / "office10", [encoded(colour(1, 96, 96))], [0], facts)
    plain = (tmp_path / "office10" / "test.parquet").read_bytes()
    copy(tmp_path / "office10", [encoded(colour(1, 96, 96))], [0], facts, domain=["dslr"])
    put(tmp_path / "office10" / "test.parquet", plain)
    with pytest.raises(UserError, match=r"differ in .* columns"):
        OfficeTen().info(tmp_path)


def test_captions_of_a_copy_reach_the_files(tmp_path):
    facts = {"encoding": "png", "height": "64", "width": "64", "classes": '["a", "b"]'}
    copy(tmp_path / "cub200", [encoded(colour(1, 64, 64))] * 2, [0, 1], facts, caption=["a bird", "ein Spatz ß"])
    pool, _ = built(Cub200(), tmp_path / "out", tmp_path)
    assert pq.read_table(files(tmp_path / "out")["test"])["caption"].to_pylist() == ["a bird", "ein Spatz ß"]
    assert "2 of 200 classes" in pool.facts["note"]


def test_a_copy_is_identified_by_its_bytes_unless_it_is_the_original(tmp_path, monkeypatch):
    facts = {"encoding": "raw", "height": "16", "width": "16", "channels": "1"}
    copy(tmp_path / "usps", [bytes(256)], [0], facts)
    first = Usps().info(tmp_path)
    assert first.images == {"train": 1, "test": 1} and first.shape == (16, 16, 1) and len(first.copy) == 16
    copy(tmp_path / "usps", [bytes(255) + b"\1"], [0], facts)
    assert Usps().info(tmp_path).copy != first.copy
    monkeypatch.setattr(Usps, "image_counts", {"train": 1, "test": 1})
    assert Usps().info(tmp_path).copy  # complete, but nothing says that it equals the original
    monkeypatch.setattr(Usps, "checksum", "known")
    assert Usps().info(tmp_path).copy == ""


@pytest.mark.parametrize(
    "name, images, classes, note",
    [
        ("fmnist", (60_000, 10_000), 10, ""),
        ("usps", (7_291, 2_007), 10, ""),
        ("emnist", (37_600, 4_700), 47, "partial copy: 37,600 of 112,800 training images, 4,700 of 18,800 test im"),
        ("mnistm", (10_000, 2_000), 10, "lossy copy (jpeg). partial copy: 10,000 of 59,001"),
        ("office10", (1_897, 636), 10, "lossy copy (jpeg). All 2,533"),
        ("cub200", (1_200, 1_200), 40, "lossy copy (jpeg). partial copy: 1,200 of 5,994"),
    ],
)
def test_real_copies_are_converted(tmp_path, shared_data, name, images, classes, note):
    data = load("data", name)()
    assert_converted(data, shared_data, tmp_path, images, classes, note)
    if data.checksum:
        assert read_metadata(tmp_path / "train.parquet")["checksum"] == data.checksum


def assert_converted(data, root, folder, images, classes, note):
    info, (pool, _) = data.info(root), built(data, folder, root)
    assert pool.facts["images"] == info.images == dict(zip(PARTS, images, strict=True))
    assert len(np.unique(pool.images.labels)) == classes == len(info.classes)
    assert pool.images.pixels.shape == (sum(images), *info.shape)
    assert pool.facts["note"].startswith(note) and bool(pool.facts["note"]) == bool(note)
    assert (info.copy == "") == bool(data.checksum)
    assert not set(info.classes) - set(data.classes)


def beginning(shared_data, root, name, train=3_000, test=500):
    """The first images of a real copy as a copy of its own: 60,000 pictures take long to decode."""
    (root / name).mkdir()
    for (part, file), rows in zip(files(shared_data / name).items(), (train, test), strict=True):
        pq.write_table(pq.read_table(file).slice(0, rows), root / name / f"{part}.parquet")


@pytest.mark.parametrize("name, classes, output", [("cifar10", 10, "Official"), ("cifar100", 100, "Fine labels")])
def test_the_beginning_of_a_large_real_copy_is_converted(tmp_path, shared_data, name, classes, output):
    data = load("data", name)()
    whole = data.info(shared_data)
    assert whole.images == {"train": 50_000, "test": 10_000} and len(whole.classes) == classes and whole.copy
    beginning(shared_data, tmp_path, name)
    few = "3,000 of 50,000 training images, 500 of 10,000 test images"
    note = f"lossy copy (jpeg). partial copy: {few}. {output}"
    assert_converted(data, tmp_path, tmp_path, (3_000, 500), classes, note)


def test_digit_five_is_composed_of_the_available_domains(tmp_path, shared_data):
    data = DigitFive(domains_used="usps, mnist,mnistm")
    info = data.info(shared_data)
    assert data.is_available(shared_data) and info.domains == ("usps", "mnist", "mnistm") and info.copy
    assert info.images == {"train": 77_291, "test": 14_007}
    shutil.copytree(shared_data / "usps", tmp_path / "usps")
    for name in ("mnist", "mnistm"):
        beginning(shared_data, tmp_path, name)
    pool, labels = built(data, tmp_path, tmp_path)
    facts = pool.facts
    assert facts["shape"] == [32, 32, 3]
    assert facts["images"] == data.info(tmp_path).images == {"train": 13_291, "test": 3_007}
    assert np.bincount(labels.domains).tolist() == [9_298, 3_500, 3_500]
    assert "mnistm: lossy copy" in facts["note"] and "usps:" not in facts["note"]
    usps = Usps().load(shared_data, None).parts["train"].pixels[:1]
    assert (pool.images.pixels[0] == pictures.resized(usps, 32)[0]).all()


def test_digit_five_names_what_is_missing(shared_data):
    data = DigitFive()
    assert not data.is_available(shared_data)
    with pytest.raises(UserError, match=r"lacks the domains svhn, synth .*the others are mnist,usps,mnistm"):
        data.load(shared_data, None)


@pytest.mark.parametrize(
    "used, words", [("mnist,svnh", "did you mean 'svhn'"), ("mnist,usps,mnist", "duplicate domain")]
)
def test_digit_five_refuses_unknown_and_repeated_domains(used, words):
    with pytest.raises(UserError, match=words):
        DigitFive(domains_used=used).info(None)


def test_mnistm_from_its_text_lists(tmp_path):
    write_mnistm(tmp_path, {"train": (4, 2), "test": (7,)}, lambda n: colour(n, 32, 32))
    assert MnistM().is_available(tmp_path)
    actual = MnistM().original(tmp_path, download=False)
    assert actual.parts["train"].labels.tolist() == [4, 2]
    assert (actual.parts["train"].pixels[0] == colour(4, 32, 32)).all()
    put(tmp_path / "mnist_m" / "mnist_m_test_labels.txt", b"00000007.png seven")
    with pytest.raises(UserError, match=r"mnist_m_test_labels.txt: expected a number, found 'seven'"):
        MnistM().load(tmp_path, None)
    put(tmp_path / "mnist_m" / "mnist_m_test_labels.txt", b"00000008.png 8")
    with pytest.raises(UserError, match=r"00000008.png: incomplete or damaged picture"):
        MnistM().load(tmp_path, None)


def test_synthetic_digits_from_the_mat_files(tmp_path):
    pixels = np.random.default_rng(0).integers(0, 256, (5, 32, 32, 3), np.uint8)
    for part in PARTS:
        write_mat(tmp_path / "synth" / f"synth_{part}_32x32.mat", pixels, np.array([10, 1, 9, 0, 5], np.uint8))
    actual = SyntheticDigits().original(tmp_path, download=False)
    assert (actual.parts["test"].pixels == pixels).all()
    assert actual.parts["test"].labels.tolist() == [0, 1, 9, 0, 5]
    put(tmp_path / "synth" / "synth_test_32x32.mat", b"no such thing")
    with pytest.raises(UserError, match=r"synth_test_32x32.mat: incomplete or damaged MATLAB file"):
        SyntheticDigits().load(tmp_path, None)


def test_svhn_has_its_channels_last(tmp_path, monkeypatch):
    datasets = vision._datasets()
    pixels = np.random.default_rng(0).integers(0, 256, (4, 32, 32, 3), np.uint8)
    for part in PARTS:
        write_mat(tmp_path / f"{part}_32x32.mat", pixels, np.array([10, 1, 2, 3], np.uint8))
        monkeypatch.setitem(datasets.SVHN.split_list, part, ["", f"{part}_32x32.mat", None])
    actual = Svhn().original(tmp_path, download=False)
    assert (actual.parts["train"].pixels == pixels).all()
    assert actual.parts["train"].labels.tolist() == [0, 1, 2, 3]


def test_usps_from_the_libsvm_files(tmp_path):
    values = np.full((2, 256), -1.0)
    values[:, 1] = 1
    for name in Usps.files:
        write_usps(tmp_path / name, values, [0, 9])
    images = Usps().original(tmp_path, download=False).parts["train"]
    assert images.labels.tolist() == [0, 9] and images.pixels.shape == (2, 16, 16, 1)
    assert images.pixels[0, 0, 1, 0] == 255 and images.pixels.astype(int).sum() == 2 * 255


def test_a_download_by_torchvision_is_tried_again(tmp_path, monkeypatch):
    tries = []

    class Failing:
        def __init__(self, root, train, download):
            tries.append(download)
            raise RuntimeError("Error downloading\nusps.bz2")

    monkeypatch.setattr(vision, "WAIT", 0)
    monkeypatch.setattr(vision._datasets(), "USPS", Failing)
    sentence = r"^data 'usps' could not be downloaded \(Error downloading usps.bz2\); put usps"
    with pytest.raises(UserError, match=sentence):
        Usps().load(None, tmp_path)
    assert tries == [True] * vision.ATTEMPTS


def test_office_folders_are_split_class_by_class(tmp_path):
    write_office(tmp_path / "Office_Caltech_DA_Dataset-main", [8], lambda n: colour(n % 10))
    data = OfficeTen(side=16)
    assert data.is_available(tmp_path)
    actual = data.original(tmp_path, download=False)
    train, test = actual.parts["train"], actual.parts["test"]
    for images, each in ((train, 6), (test, 2)):
        assert images.pixels.shape == (each * 40, 16, 16, 3)
        assert np.unique(images.domains * 10 + images.labels, return_counts=True)[1].tolist() == [each] * 40
        assert all(is_colour(p[8, 8], n) for p, n in zip(images.pixels, images.labels, strict=True))
    assert (data.original(tmp_path, download=False).parts["test"].pixels == test.pixels).all()
    with pytest.raises(UserError, match="set `side`"):
        put(tmp_path / "Office_Caltech_DA_Dataset-main/Amazon/bike/a.jpg", encoded(colour(1, 9, 9)))
        OfficeTen(side=None).load(tmp_path, None)


def test_a_class_without_a_folder_is_named(tmp_path):
    write_office(tmp_path / "office10", [1], colour)
    folder = tmp_path / "office10" / "webcam" / "mug"
    folder.rename(folder.with_name("cup"))
    with pytest.raises(UserError, match=r"webcam: there are no folders of the classes mug"):
        OfficeTen().load(tmp_path, None)


def test_domainnet_takes_its_subset_out_of_the_archives(tmp_path):
    write_domainnet(tmp_path / "domainnet", ("zebra", "yoga", "bird"), lambda n: colour(n % 345))
    data = DomainNet(side=8)
    assert data.is_available(tmp_path)
    actual, info = data.original(tmp_path, download=False), data.info(tmp_path)
    assert actual.classes == info.classes == TEN and info.images == {"train": 12, "test": 12}
    images = actual.parts["train"]
    assert images.labels.tolist() == [9, 0] * 6 and images.domains.tolist() == sorted([*range(6)] * 2)
    assert is_colour(images.pixels[0, 4, 4], names.DOMAINNET.index("zebra"))
    everything = DomainNet(subset="all").original(tmp_path, download=False)
    assert len(everything.parts["test"].labels) == 18 and len(everything.classes) == 345


def test_domainnet_says_what_is_wrong_with_its_files(tmp_path):
    write_domainnet(tmp_path / "domainnet", ("zebra", "yoga", "bird"), lambda n: colour(n % 345))
    put(tmp_path / "domainnet" / "txt" / "real_test.txt", b"real/zebra/missing.png 343\n")
    with pytest.raises(UserError, match=r"real.zip: incomplete or damaged archive"):
        DomainNet().original(tmp_path, download=False)
    put(tmp_path / "domainnet" / "txt" / "real_test.txt", b"real/unicorn/a.png 3\n")
    with pytest.raises(UserError, match=r"real_test.txt: no class 'unicorn'"):
        DomainNet().original(tmp_path, download=False)
    put(tmp_path / "domainnet" / "txt" / "real_test.txt", b"real/zebra/a.png\n")
    with pytest.raises(UserError, match=r"real_test.txt, line 1: expected two words"):
        DomainNet().original(tmp_path, download=False)


def test_domainnet_can_be_planned_before_its_lists_are_there(tmp_path):
    assert DomainNet(subset="all").info(None).images == DomainNet.image_counts
    info = DomainNet().info(tmp_path)
    assert info.images == DomainNet.image_counts and len(info.classes) == 10  # no more than all pictures
    assert len(LISTS) == 12


def test_cub_with_and_without_captions(tmp_path):
    paths = write_cub(tmp_path, lambda n: colour(n % 10))
    actual = Cub200(side=16).original(tmp_path, download=False)
    assert actual.parts["train"].labels.tolist() == [0, 199] and actual.parts["test"].labels.tolist() == [1]
    assert actual.classes[199] == "Common_Yellowthroat" and actual.parts["train"].captions is None
    assert is_colour(actual.parts["test"].pixels[0, 8, 8], 2)
    for path in paths[:2]:
        put(caption_file(tmp_path, path), b"a bird\n the second sentence\n")
    with pytest.raises(UserError, match=r"c.txt: cannot be read"):
        Cub200().original(tmp_path, download=False)
    put(caption_file(tmp_path, paths[2]), b"a throat\n")
    actual = Cub200().original(tmp_path, download=False)
    assert actual.parts["train"].captions == ["a bird\nthe second sentence", "a throat"]


def test_resizing_is_antialiased():
    stripes = np.zeros((1, 64, 64, 1), np.uint8)
    stripes[:, ::2] = 255
    small = pictures.resized(stripes, 8)
    assert small.shape == (1, 8, 8, 1) and np.abs(small.astype(int) - 127).max() < 20
    assert pictures.resized(small, 8) is small


def test_only_pictures_are_resized():
    with pytest.raises(UserError, match="leave out `side`"):
        pictures.resized(np.zeros((2, 4, 4, 1), np.float32), 8)
