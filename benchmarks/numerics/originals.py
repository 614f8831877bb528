"""Small files in the form in which the authors of data sets publish theirs.

Every picture is noise of its own, so that one in another place, or one that is turned, cut off or resized otherwise,
shows. Tests hand in pictures that they recognise.
"""

import bz2
import io
import pickle
import struct
import zipfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import numpy as np
from PIL import Image

from fedgrid.data.common.images import PARTS
from fedgrid.data.domainnet import DomainNet
from fedgrid.data.office10 import OfficeTen
from fedgrid.data.sources import names

Picture = Callable[[int], np.ndarray]
"The picture of a number, uint8 [height, width, 3]."
BIRDS = (
    ("001.Black_footed_Albatross/a.jpg", True),
    ("002.Laysan_Albatross/b.jpg", False),
    ("200.Common_Yellowthroat/c.jpg", True),
)
"Pictures of CUB-200-2011, and whether they are for training."
MORE_BIRDS = (
    *BIRDS,
    ("001.Black_footed_Albatross/d.jpg", False),
    ("117.Clay_colored_Sparrow/f.jpg", True),
    ("117.Clay_colored_Sparrow/e.jpg", True),
    ("200.Common_Yellowthroat/g.jpg", False),
)
SPELT = {"laptop": "Laptop_Computer", "backpack": "back_pack"}
"Classes of Office-Caltech-10 whose folders the authors call otherwise."


def write_originals(folder: Path) -> None:
    """Writes the files of every data set whose authors' own files are read, each into a folder of its name."""
    write_idx(folder / "mnist" / "MNIST" / "raw", ("train", "t10k"))
    write_idx(folder / "fmnist" / "FashionMNIST" / "raw", ("train", "t10k"))
    write_idx(folder / "emnist" / "EMNIST" / "raw", ("emnist-balanced-train", "emnist-balanced-test"), classes=47)
    write_cifar(folder / "cifar10" / "cifar-10-batches-py", [f"data_batch_{number}" for number in range(1, 6)])
    write_cifar(folder / "cifar100" / "cifar-100-python", ["train"], "test", "meta", "fine_", 100)
    for seed, part in enumerate(PARTS):
        pixels, labels = noise_images((9, 32, 32, 3), seed), np.array([10, 1, 9, 2, 5, 10, 3, 7, 8], np.uint8)
        write_mat(folder / "svhn" / f"{part}_32x32.mat", pixels, labels)
        write_mat(folder / "synth" / "synth" / f"synth_{part}_32x32.mat", pixels, labels)
    for seed, name in enumerate(("usps.bz2", "usps.t.bz2")):
        values = np.random.default_rng(seed).uniform(-1, 1, (12, 256)).round(4)
        write_usps(folder / "usps" / name, values, [*range(10), 3, 0])
    write_mnistm(folder / "mnistm", {"train": (4, 12, 0, 29, 7), "test": (38, 5, 11)}, small_noise)
    write_office(folder / "office10" / "Office_Caltech_DA_Dataset-main", (5, 6, 7, 10, 2), noise)
    write_domainnet(folder / "domainnet" / "domainnet", ("zebra", "yoga", "bird", "tiger"), noise, count=2)
    write_cub(folder / "cub200", noise, _sentences, MORE_BIRDS)
    write_cub(folder / "cub200 without captions", noise, birds=MORE_BIRDS)


def noise(number: int) -> np.ndarray:
    """A picture of noise, of a size that differs from number to number."""
    return noise_images((20 + number % 7, 30 - number % 5, 3), number)


def small_noise(number: int) -> np.ndarray:
    """A picture of noise, 32×32."""
    return noise_images((32, 32, 3), number)


def noise_images(shape: Sequence[int], seed: int = 0) -> np.ndarray:
    """Random pixels, uint8 of that shape."""
    return np.random.default_rng(seed).integers(0, 256, tuple(shape), np.uint8)


def put(file: Path, content: bytes) -> None:
    """Writes a file, and the folders above it."""
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(content)


def encoded(pixels: np.ndarray, kind: str = "png") -> bytes:
    """A picture as a file's bytes: pixels uint8 [height, width] or [height, width, 3]."""
    buffer = io.BytesIO()
    Image.fromarray(pixels).save(buffer, kind)
    return buffer.getvalue()


def write_idx(
    folder: Path, parts: Sequence[str], images: int = 12, classes: int = 10
) -> list[tuple[np.ndarray, np.ndarray]]:
    """The files of MNIST and its kin; returns pixels uint8 [n, 28, 28] and labels uint8 [n] of each part."""
    content = []
    for seed, part in enumerate(parts):
        pixels, labels = noise_images((images, 28, 28), seed), (np.arange(images) * 7 % classes).astype(np.uint8)
        put(folder / f"{part}-images-idx3-ubyte", _idx(pixels))
        put(folder / f"{part}-labels-idx1-ubyte", _idx(labels))
        content.append((pixels, labels))
    return content


def _idx(array: np.ndarray) -> bytes:
    return struct.pack(">HBB" + "I" * array.ndim, 0, 8, array.ndim, *array.shape) + array.tobytes()


def write_cifar(
    folder: Path,
    batches: Sequence[str],
    test: str = "test_batch",
    meta: str = "batches.meta",
    prefix: str = "",
    classes: int = 10,
) -> None:
    """The pickles of CIFAR-10, or of CIFAR-100, whose keys for fine labels have a prefix."""
    for seed, name in enumerate((*batches, test)):
        labels = (np.arange(8) * 13 + seed) % classes
        batch = {"data": noise_images((8, 3 * 32 * 32), seed), f"{prefix}labels": labels.tolist()}
        batch |= {"coarse_labels": (labels // 5).tolist()} if prefix else {}
        put(folder / name, pickle.dumps(batch))
    named = {f"{prefix}label_names": [f"class {number}" for number in range(classes)]}
    put(folder / meta, pickle.dumps(named))


def write_mat(file: Path, pixels: np.ndarray, labels: np.ndarray) -> None:
    """A file of SVHN or Synthetic Digits: pixels [n, height, width, 3], labels [n] in which 10 is the digit 0."""
    from scipy.io import savemat

    file.parent.mkdir(parents=True, exist_ok=True)
    savemat(file, {"X": pixels.transpose(1, 2, 3, 0), "y": labels[:, np.newaxis]})


def write_usps(file: Path, values: np.ndarray, labels: Sequence[int]) -> None:
    """A file of USPS in LIBSVM's form: values from −1 to 1 [n, 256], labels [n]."""
    lines = []
    for row, label in zip(values, labels, strict=True):
        pairs = " ".join(f"{place}:{value:g}" for place, value in enumerate(row, start=1))
        lines.append(f"{label + 1} {pairs}\n")
    put(file, bz2.compress("".join(lines).encode()))


def write_mnistm(root: Path, numbers: Mapping[str, Sequence[int]], picture: Picture) -> None:
    """The lists and pictures of MNIST-M: by part the numbers of its pictures, whose last digits are their labels."""
    for part, of_part in numbers.items():
        lines = []
        for number in of_part:
            put(root / "mnist_m" / f"mnist_m_{part}" / f"{number:08}.png", encoded(picture(number)))
            lines.append(f"{number:08}.png {number % 10}\n")
        put(root / "mnist_m" / f"mnist_m_{part}_labels.txt", "".join(lines).encode())


def write_office(folder: Path, counts: Sequence[int], picture: Picture) -> None:
    """The folders of Office-Caltech-10: so many pictures of the first class, the second and so on, over and over.

    The last digit of a picture's number is its label.
    """
    for place, domain in enumerate(("Amazon", "caltech", "DSLR", "webcam")):
        for label, name in enumerate(OfficeTen.classes):
            for number in range(counts[label % len(counts)]):
                content = encoded(picture(label + 10 * (number + 100 * place)), "jpeg")
                put(folder / domain / SPELT.get(name, name) / f"frame_{number:04}.JPG", content)


def write_domainnet(folder: Path, classes: Sequence[str], picture: Picture, count: int = 1) -> None:
    """The archives and lists of DomainNet: `count` pictures of each class in each part of each domain.

    A picture's number modulo 345 is the number of its class.
    """
    folder.mkdir(parents=True, exist_ok=True)
    for place, domain in enumerate(DomainNet.domains):
        with zipfile.ZipFile(folder / f"{domain}.zip", "w") as archive:
            for part in PARTS:
                lines = []
                for number in range(count):
                    for name in classes:
                        label = names.DOMAINNET.index(name)
                        member = f"{domain}/{name}/{domain}_{part}_{number}.png"
                        drawn = picture(label + 345 * (number + 10 * place + 100 * PARTS.index(part)))
                        archive.writestr(member, encoded(drawn))
                        lines.append(f"{member} {label}\n")
                put(folder / "txt" / f"{domain}_{part}.txt", "".join(lines).encode())


def write_cub(
    root: Path,
    picture: Picture,
    sentences: Callable[[int], Sequence[str]] | None = None,
    birds: Sequence[tuple[str, bool]] = BIRDS,
) -> list[str]:
    """The lists and pictures of CUB-200-2011, and the captions of the picture in each place; returns the pictures.

    A picture's number modulo 1,000 is the number of its class, from 1.
    """
    rows = [(path, int(path[:3]), int(training)) for path, training in birds]
    for column, name in enumerate(("images.txt", "image_class_labels.txt", "train_test_split.txt")):
        lines = [f"{number} {row[column]}\n" for number, row in enumerate(rows, start=1)]
        put(root / "CUB_200_2011" / name, "".join(lines).encode())
    for place, (path, label, _) in enumerate(rows):
        put(root / "CUB_200_2011" / "images" / path, encoded(picture(label + 1000 * place), "jpeg"))
        if sentences:
            put(caption_file(root, path), "\n".join(sentences(place)).encode())
    return [path for path, _ in birds]


def caption_file(root: Path, path: str) -> Path:
    """The file of the captions of a picture of CUB-200-2011."""
    return (root / "text_c10" / path).with_suffix(".txt")


def _sentences(place: int) -> list[str]:
    """As many as there are, more or fewer; words that come once, twice and often, and marks between them."""
    colours = ("red", "blue", "yellow-green", "Red", "black")
    first = [f"This bird number{place} is {colours[place % 5]}.", "a bird,  a bird with a long_bill and wings"]
    return first + [f"it has {colours[(place + number) % 5]} wings" for number in range(3 * place)]
