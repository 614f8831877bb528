"""The files that cases read: data sets as their authors publish them, copies, a user's own files, partitions."""

from pathlib import Path

from benchmarks.numerics.copies import ALONE, COPIES, OWN, SIZES, write_copies, write_pictures
from benchmarks.numerics.originals import put, write_originals
from benchmarks.numerics.partitions import write_partitions

HALVES = '''"""The images of each part in two halves."""

from fedgrid.partition.homogeneous import Homogeneous


class Halves(Homogeneous):
    title = "halves"

    def owners(self, pool, random):
        return (random.permutation(len(pool.labels)) > len(pool.labels) // 2).astype(int)
'''
TWICE = '''"""A partition that deals an image out twice."""

import pyarrow as pa

from fedgrid.partition.homogeneous import Homogeneous


class Twice(Homogeneous):
    title = "twice"

    def split(self, pool, seed):
        table = super().split(pool, seed)
        return pa.concat_tables([table, table.slice(0, 1)])
'''


MARKS = '''"""A data set whose domains are not in the order of their names."""

from fedgrid.data.base import DataSet


class Marks(DataSet):
    title = "marks"
    source = "noise"
    images = {"train": 30, "test": 12}
    shape = (6, 5, 1)
    classes = ("one", "two")
    domains = ("west", "East", "north")

    def original(self, folder, download):
        return None
'''


def write_inputs(folder: Path) -> None:
    """Writes all files that ``{inputs}`` in ``matrix.yaml`` stands for; both trees read the same ones."""
    write_originals(folder / "originals")
    copies = write_copies(folder / "copies", COPIES, SIZES)
    write_copies(folder / "tables", OWN, SIZES)
    write_copies(folder / "tables", ALONE, {"train": 20})
    write_pictures(folder / "pictures")
    write_partitions(folder / "partitions", copies["svhn"]["train"])
    for name, source in {"halves": HALVES, "twice": TWICE, "marks": MARKS}.items():
        put(folder / "own" / f"{name}.py", source.encode())
