"""EMNIST Balanced: 112,800 + 18,800 handwritten digits and letters, 28×28 grey, 47 classes of equal size.

Letters whose two cases look alike are one class. The original files hold every image transposed; here it is upright.
"""

from fedgrid.data.families.vision import VisionDataSet


class Emnist(VisionDataSet):
    title = "EMNIST"
    source = "Cohen, Afshar, Tapson & van Schaik, EMNIST: extending MNIST to handwritten letters, 2017 (Balanced)"
    image_counts = {"train": 112_800, "test": 18_800}
    shape = (28, 28, 1)
    classes = tuple("0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabdefghnqrt")
    mean = (0.1751,)
    std = (0.3332,)
    wanted = "the unpacked emnist-balanced-{train,test}-{images-idx3,labels-idx1}-ubyte into <data_root>/EMNIST/raw"
    vision = "EMNIST"
    files = tuple(
        f"EMNIST/raw/emnist-balanced-{part}-{what}-ubyte"
        for part in ("train", "test")
        for what in ("images-idx3", "labels-idx1")
    )
    options = {"split": "balanced"}
    axes = "nwh"
