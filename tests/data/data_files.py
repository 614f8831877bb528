"""Data sets in the files that their jobs write."""

from fedgrid.data.base import convert
from fedgrid.data.common import store
from fedgrid.data.common.images import PARTS


def files(folder):
    """By part, the file of a data set that is built in `folder`."""
    return {part: folder / f"{part}.parquet" for part in PARTS}


def built(data, folder, root=None, key=""):
    """Builds a data set in `folder` and reads it back: its images and facts, and its labels."""
    convert(data, root, None, files(folder), key)
    return store.read(files(folder)), store.read_labels(files(folder))[0]
