"""What it costs that files of the store are checked: seconds of loading a data set, and of looking at many pictures.

FEDGRID_DATA=/path python -m benchmarks.verification
"""

import json
import os
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from unittest.mock import patch

import torch
from PIL import Image

from fedgrid import files
from fedgrid.data.folder import Folder
from fedgrid.engine.local import client_data
from fedgrid.grid.plan.product import planned_study
from fedgrid.grid.study.sections import Section
from fedgrid.jobs import dataset, partition

REPEATS, PICTURES = 5, 50_000


def seconds(call: Callable[[], object]) -> float:
    """Median seconds of a call."""
    taken = []
    for _ in range(REPEATS):
        start = time.perf_counter()
        call()
        taken.append(time.perf_counter() - start)
    return round(median(taken), 3)


def loading(data: str) -> dict[str, float]:
    """Seconds in which a cell's images are loaded, with the check of their content and without."""
    text = {
        "name": "v",
        "data": data,
        "methods": ["fedavg"],
        "heterogeneity": [{"partition": "dirichlet", "clients": 10}],
    }
    study = planned_study(Section(text))
    cell = study.cells[0]
    dataset.build(cell.partition.data, study)
    partition.build(cell.partition)

    def load() -> None:
        client_data.load(cell.partition.data.files, cell.partition.file, torch.device("cpu"))

    with_check = seconds(load)
    with patch.object(files, "_opened", lambda schema: (json.loads(schema.metadata[files.METADATA]), None)):
        return {"checked": with_check, "unchecked": seconds(load)}


def pictures() -> dict[str, float]:
    """Seconds in which a folder of pictures is looked at, first and again."""
    for number in range(PICTURES):
        file = Path("pictures", str(number % 10), f"{number}.bmp")
        file.parent.mkdir(parents=True, exist_ok=True)
        if number < 10:
            Image.new("L", (32, 32), number).save(file)
        else:
            file.write_bytes(Path("pictures", str(number % 10), f"{number % 10}.bmp").read_bytes())
        os.utime(file, (0, 0))
    start = time.perf_counter()
    Folder(path="pictures").info(None)
    first = time.perf_counter() - start
    return {"first": round(first, 2), "again": seconds(lambda: Folder(path="pictures").info(None))}


def main() -> None:
    """Prints one line of JSON for each measurement."""
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        os.environ["XDG_CACHE_HOME"] = folder
        for data in ("digits", "cifar10"):
            print(json.dumps({"loading": data} | loading(data)))
        print(json.dumps({"pictures": PICTURES} | pictures()))


if __name__ == "__main__":
    main()
