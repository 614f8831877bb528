"""A user's own pictures, scored by a final model of a cell."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from PIL import Image
from torch import Tensor

from fedgrid.api.models import StoredModels
from fedgrid.data.folder import SUFFIXES
from fedgrid.data.sources.pictures import MODES, decoded
from fedgrid.engine.local.client_data import TEXTUAL
from fedgrid.errors import UserError, say_notice
from fedgrid.grid.plan.checks import SAMPLES

TOGETHER = 256
"Pictures that go through a model together."


@dataclass(frozen=True)
class Score:
    """What a model says of a picture."""

    file: Path
    name: str
    "Of the class that it predicts."
    probability: float


@dataclass
class Scorer:
    """A final model of a cell, for pictures; `changes` counts what had to be done to them."""

    cell: Path
    client: int | None = None
    point: str | None = None
    changes: Counter[str] = field(default_factory=Counter)

    def scores(self, files: Sequence[Path]) -> Iterator[Score]:
        """The scores of pictures, in their order; UserError where they, or the model, are none of pictures."""
        models = StoredModels.of(self.cell)
        choice = models.choose(self.client, self.point)
        _check(self.cell, choice.modality, models.header["images"])
        if notice := models.edited_code_notice(choice):
            say_notice(notice)
        module = models.module(choice)
        for start in range(0, len(files), TOGETHER):
            some = files[start : start + TOGETHER]
            pictures = torch.cat([self._read(file, models.header["images"]) for file in some])
            with torch.no_grad():
                probability, predicted = module(pictures).double().softmax(dim=1).max(dim=1)
            for file, number, share in zip(some, predicted.tolist(), probability.tolist(), strict=True):
                yield Score(file, models.header["classes"][number], share)

    def _read(self, file: Path, images: Mapping[str, Any]) -> Tensor:
        """A picture [1, channels, height, width] with the size, the colours and the white of a data set's images."""
        height, width, channels = images["shape"]
        pixels = decoded([file], None, channels, lost=self.changes)[0]
        if pixels.shape[:2] != (height, width):
            self.changes[f"resized to {width}×{height} pixels"] += 1
            picture = Image.fromarray(pixels[:, :, 0] if channels == 1 else pixels)
            resized = picture.resize((width, height), Image.Resampling.BILINEAR)
            pixels = np.asarray(resized).reshape(height, width, channels)
        scale: float = images["scale"] / 255
        return torch.tensor(pixels).permute(2, 0, 1).unsqueeze(0) * scale


def _check(cell: Path, modality: str, images: Mapping[str, Any]) -> None:
    """Raises UserError for a model that does not take pictures."""
    if modality == TEXTUAL:
        why = "this client holds texts, and only pictures can be scored; choose a client that holds pictures"
        raise UserError(f"{cell}: {why}")
    if images["dtype"] != "uint8" or images["shape"][2] not in MODES:
        what = SAMPLES[images["kind"]] if "kind" in images else "features"
        raise UserError(f"{cell}: this cell was trained on {what}, and only models of pictures can score pictures")


def pictures_in(paths: Sequence[Path]) -> list[Path]:
    """The pictures that are named, and those in the folders that are, at any depth; UserError where there are none."""
    pictures: list[Path] = []
    for path in paths:
        if not path.exists():
            raise UserError(f"{path} does not exist")
        files = sorted(path.rglob("*")) if path.is_dir() else [path]
        inside = [file for file in files if file == path or file.suffix.lower() in SUFFIXES]
        if not inside:
            raise UserError(f"{path}: no pictures ({', '.join(SUFFIXES)}) in this folder")
        pictures += inside
    return pictures
