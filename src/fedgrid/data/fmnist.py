"""Fashion-MNIST: 60,000 + 10,000 pictures of clothes, 28×28 grey."""

from fedgrid.data.families.vision import VisionDataSet


class FashionMnist(VisionDataSet):
    title = "Fashion-MNIST"
    source = "Xiao, Rasul & Vollgraf, Fashion-MNIST: a novel image dataset for benchmarking machine learning, 2017"
    image_counts = {"train": 60_000, "test": 10_000}
    checksum = "ece172613115fb18b120bec8f6c02271af90b8b8f0a5af5c51cbd5ceed68e619"
    shape = (28, 28, 1)
    classes = (
        "T-shirt/top", "Trouser", "Pullover", "Dress", "Coat", "Sandal", "Shirt", "Sneaker", "Bag", "Ankle boot",
    )  # fmt: skip
    mean = (0.2860,)
    std = (0.3530,)
    wanted = "the four unpacked original files (train-images-idx3-ubyte, …) into <data_root>/FashionMNIST/raw"
    vision = "FashionMNIST"
    files = tuple(
        f"FashionMNIST/raw/{part}-{what}-ubyte" for part in ("train", "t10k") for what in ("images-idx3", "labels-idx1")
    )
