"""A partition of another program: a table, a dictionary of row numbers, or PFLlib's folder says which client has what.

In a study: ``partition: {import: path/to/partition.csv}``; ``{seed}`` in the path stands for the partition's seed.
Images are matched by row number, by file name or by their pixels, so that the clients are the same as there.
"""

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from fedgrid.components import hp
from fedgrid.data.common.images import DatasetInfo
from fedgrid.data.common.store import Labels
from fedgrid.errors import UserError
from fedgrid.files import path_of
from fedgrid.partition.base import Expected, Partition
from fedgrid.partition.common.rows import SPLITS
from fedgrid.partition.importing.forms import Form, form_of
from fedgrid.partition.importing.matching import ImagePool, check_without_tests, matched
from fedgrid.partition.importing.pfllib import ExpectedImages, client_files, counts
from fedgrid.partition.importing.rows import TEST, ImportedRows


class Imported(Partition):
    title = "imported partition"
    source = "whoever made it"
    from_file = True
    needs_images = True

    path: str = hp("")
    "The file, or PFLlib's folder; {seed} stands for the partition's seed."
    test: str = hp("official", choices=("official", "weighted"))
    "Where the file has no test images: all clients share the official ones, or these weighted by class."
    unmatched: str = hp("refuse", choices=("refuse", "drop"))
    "What becomes of images that the data set lacks: they are an error, or they are left out."

    def sentence(self) -> str:
        return f"imported from {Path(self.path).name}"

    def sentence_with_origin(self, seed: int) -> str:
        """The setting in words, with name, form and digest of a seed's file."""
        form = self.form(seed)
        parts = [f"imported from {form.path.name} ({form.title}, SHA-256 {form.digest[:16]})"]
        if self.unmatched == "drop":
            parts.append("without images that the data set lacks")
        if self.tested(seed) != "own":
            parts.append("official test images" + " weighted by class" * (self.test == "weighted"))
        return ", ".join(parts)

    def form(self, seed: int) -> Form:
        """The file of a seed, and its form."""
        if not self.path:
            raise UserError("partition: 'imported' needs a path, as in {partition: {import: partition.csv}}")
        return form_of(path_of(self.path.replace("{seed}", str(seed)), "partition.path"))

    def identity(self, seed: int) -> dict[str, Any]:
        return {"imported": self.form(seed).digest, "test": self.test, "unmatched": self.unmatched}

    def tested(self, seed: int) -> str:
        form = self.form(seed)
        if form.kind == "PFLlib":
            return "own" if client_files(form.path)["test"] else self.test
        return "own" if form.rows.has_own_tests else self.test

    def validated(self, seed: int) -> bool:
        form = self.form(seed)
        return form.kind != "PFLlib" and bool((form.rows.split == SPLITS.index("validation")).any())

    def check_feasible(self, info: DatasetInfo, seeds: list[int]) -> None:
        if info.modalities:
            raise UserError("partition: an imported one is of images alone, not of two modalities")
        for seed in seeds:
            form, images = self.form(seed), sum(info.images.values())
            if form.kind == "PFLlib":
                counts(form.path, ExpectedImages(info.shape, images))
                if self.tested(seed) != "own":
                    check_without_tests(0, info.images["train"], info.images["test"], str(form.path))
                continue
            rows, where = form.rows, str(form.path)
            by_number = rows.naming == "index"
            highest = int(rows.image.max()) if by_number else 0
            if highest >= images:
                raise UserError(f"{where}: names image {highest:,}, and the data set has {images:,}, from 0")
            if not (rows.has_own_tests or rows.shared.any()):
                check_without_tests(highest, info.images["train"], info.images["test"], where)
            if not (rows.split != TEST).any():
                raise UserError(f"{where}: no client has training images; give some rows the split train")
            if rows.label is not None and (largest := int(rows.label.max())) >= len(info.classes):
                raise UserError(f"{where}: has the label {largest}, and the data set has {len(info.classes)} classes")

    def expected(self, info: DatasetInfo, seed: int) -> Expected:
        form, shared = self.form(seed), info.images["test"]
        if form.kind == "PFLlib":
            clients, sizes = counts(form.path, ExpectedImages(info.shape, sum(info.images.values())))
            return Expected(clients, sizes["train"], 0, sizes["test"] or clients * shared)
        rows = form.rows
        clients = len(rows.clients)
        train, validation, test = np.bincount(rows.split[~rows.shared], minlength=len(SPLITS)).tolist()
        return Expected(clients, train, validation, test or clients * (int(rows.shared.sum()) or shared))

    def about(self, pool: Labels, seed: int) -> dict[str, Any]:
        form, (_, rows, report) = self.form(seed), self._matched(pool, seed)
        origin = {"file": form.path.name, "form": form.title, "digest": form.digest, "report": report}
        words = f"{self.sentence_with_origin(seed)}, {len(rows.clients)} clients"
        test = "own" if rows.has_own_tests else self.test
        return {"clients": len(rows.clients), "words": words, "test": test, "origin": origin}

    def split(self, pool: Labels, seed: int) -> pa.Table:
        table, _, _ = self._matched(pool, seed)
        return table

    def _matched(self, pool: Labels, seed: int) -> tuple[pa.Table, ImportedRows, dict[str, Any]]:
        assert isinstance(pool, ImagePool)  # whoever builds it knows the images too
        form = self.form(seed)
        return matched(form, form.digest, pool, self.unmatched == "drop")
