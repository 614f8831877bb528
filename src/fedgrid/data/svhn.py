"""SVHN: 73,257 + 26,032 digits of photographed house numbers, 32×32 RGB (without the part `extra`)."""

from fedgrid.data.families.vision import VisionDataSet


class Svhn(VisionDataSet):
    title = "SVHN"
    source = "Netzer, Wang, Coates, Bissacco, Wu & Ng, Reading digits in natural images, 2011"
    image_counts = {"train": 73_257, "test": 26_032}
    shape = (32, 32, 3)
    classes = tuple("0123456789")
    mean = (0.4377, 0.4438, 0.4728)
    std = (0.1980, 0.2010, 0.1970)
    wanted = "train_32x32.mat and test_32x32.mat into <data_root>"
    vision = "SVHN"
    files = ("train_32x32.mat", "test_32x32.mat")
    by_split = True
    axes = "nchw"
