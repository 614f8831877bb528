"""USPS: 7,291 + 2,007 handwritten digits from envelopes, 16×16 grey."""

from fedgrid.data.families.vision import VisionDataSet


class Usps(VisionDataSet):
    title = "USPS"
    source = "Hull, A database for handwritten text recognition research, 1994; LIBSVM's copy"
    image_counts = {"train": 7_291, "test": 2_007}
    shape = (16, 16, 1)
    classes = tuple("0123456789")
    mean = (0.2545,)
    std = (0.3846,)
    wanted = "usps.bz2 and usps.t.bz2 into <data_root>"
    vision = "USPS"
    files = ("usps.bz2", "usps.t.bz2")
