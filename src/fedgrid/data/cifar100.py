"""CIFAR-100: 50,000 + 10,000 photographs with fine labels, 100 classes, 32×32 RGB."""

from fedgrid.data.families.vision import VisionDataSet
from fedgrid.data.sources import names


class Cifar100(VisionDataSet):
    title = "CIFAR-100"
    source = "Krizhevsky, Learning multiple layers of features from tiny images, 2009"
    image_counts = {"train": 50_000, "test": 10_000}
    shape = (32, 32, 3)
    classes = names.CIFAR100
    mean = (0.5071, 0.4865, 0.4409)
    std = (0.2673, 0.2564, 0.2762)
    wanted = "the folder cifar-100-python of cifar-100-python.tar.gz into <data_root>"
    vision = "CIFAR100"
    files = ("cifar-100-python/train", "cifar-100-python/test", "cifar-100-python/meta")
    axes = "nhwc"
