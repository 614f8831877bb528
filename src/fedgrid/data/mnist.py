"""MNIST: 60,000 + 10,000 handwritten digits, 28×28 grey."""

from fedgrid.data.families.vision import VisionDataSet


class Mnist(VisionDataSet):
    title = "MNIST"
    source = "LeCun, Bottou, Bengio & Haffner, Gradient-based learning applied to document recognition, 1998"
    image_counts = {"train": 60_000, "test": 10_000}
    checksum = "1e35582d42a90940c55b956deb61875c020b567ed20e3c5b174f52bf7809ed9b"
    shape = (28, 28, 1)
    classes = tuple("0123456789")
    mean = (0.1307,)
    std = (0.3081,)
    wanted = "the four unpacked original files (train-images-idx3-ubyte, …) into <data_root>/MNIST/raw"
    vision = "MNIST"
    files = tuple(
        f"MNIST/raw/{part}-{what}-ubyte" for part in ("train", "t10k") for what in ("images-idx3", "labels-idx1")
    )
