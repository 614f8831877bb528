"""CIFAR-10: 50,000 + 10,000 photographs of ten kinds of things, 32×32 RGB."""

from fedgrid.data.families.vision import VisionDataSet


class Cifar10(VisionDataSet):
    title = "CIFAR-10"
    source = "Krizhevsky, Learning multiple layers of features from tiny images, 2009"
    image_counts = {"train": 50_000, "test": 10_000}
    shape = (32, 32, 3)
    classes = ("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck")
    mean = (0.4914, 0.4822, 0.4465)
    std = (0.2470, 0.2435, 0.2616)
    wanted = "the folder cifar-10-batches-py of cifar-10-python.tar.gz into <data_root>"
    vision = "CIFAR10"
    files = tuple(
        f"cifar-10-batches-py/{name}"
        for name in (*(f"data_batch_{number}" for number in range(1, 6)), "test_batch", "batches.meta")
    )
    axes = "nhwc"
