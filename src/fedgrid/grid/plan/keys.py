"""Keys: a file's path contains its key, which covers everything that the file depends on. A file that exists is cached.

data        name, settings, code of the data set, and the local copy where it is not the original
features    key of the data, backbone and its weights, code of the features
partition   kind, settings, key of the data, code of the partition; the seed is in the file's name
cell        method, hyperparameters, model and its file of weights, training, seed, key of the partition, code that can
            change its numbers
"""

from dataclasses import replace
from pathlib import Path
from typing import Any

from fedgrid.data.sources.digests import digest as file_digest
from fedgrid.errors import UserError
from fedgrid.files import path_of
from fedgrid.grid.plan.model import PlannedDataset, PlannedPartition
from fedgrid.grid.study.canonical import digest
from fedgrid.grid.study.fingerprint import fingerprint, modules
from fedgrid.grid.study.ledger import ENGINE, FEATURES
from fedgrid.grid.study.model import WITHOUT_FILE, Configured, MethodRow, ModelEntry, Settings
from fedgrid.grid.study.sources import is_ours
from fedgrid.loading import locate
from fedgrid.partition.base import Partition
from fedgrid.settings import identity_of_backbone, identity_of_training

RANDOM = "random"
"The backbone that needs no weights."
HUB = "hub"
"The weights that are downloaded."


def code_of(kind: str, component: Configured) -> str:
    """Fingerprint of a component's own code, in the files that this process imports it from."""
    _, module, file = locate(kind, component.reference)
    return fingerprint(module, file)


def key_of_data(data: Configured, copy: str) -> str:
    """The key of a data set; `copy` is the identity of a local copy that is not the original."""
    return digest([data.spec, copy, code_of("data", data)])


def key_of_features(images: PlannedDataset, backbone: Settings) -> str:
    """The key of what a backbone makes of a data set, with its weights as they are now; UserError without any."""
    weights = path_of(backbone["weights"], "data.features.weights")
    if backbone["weights"] != HUB and backbone["backbone"] != RANDOM and not weights.is_file():
        raise UserError(f"data.features.weights: there is no file {weights}; name a file of weights, or {HUB}")
    content = file_digest(weights) if weights.is_file() else ""
    return digest([images.key, identity_of_backbone(backbone), content, fingerprint(FEATURES)])


def key_of_partition(partition: Partition, kind: Configured, code: str, data: PlannedDataset, seed: int) -> str:
    """The key of a partition; that of a published one covers what its file holds now."""
    return digest([partition.identity(seed) or kind.spec, data.key, code])


def key_of_cell(row: MethodRow, partition: PlannedPartition, model: Configured, train_seed: int, code: str) -> str:
    """The key of a cell; `code` is the fingerprint of all code that can change its numbers."""
    training, network = identity_of_training(row.training), _identity_of_model(model)
    return digest([row.component.spec, network, training, partition.key, partition.seed, train_seed, code])


def with_weights(model: ModelEntry) -> Configured:
    """The component of a model, with the digest of its file of weights as it is now; UserError without any."""
    component = model.component
    if not model.pretrained or component.settings["weights"] in WITHOUT_FILE:
        return component
    file = path_of(component.settings["weights"], "model.weights")
    if not file.is_file():
        raise UserError(f"model.weights: there is no file {file}; name a file, or {' or '.join(WITHOUT_FILE)}")
    return replace(component, weights=file_digest(file))


def _identity_of_model(model: Configured) -> dict[str, Any]:
    """The specification of a model as it enters keys: of a file of weights the content, wherever it lies."""
    if not model.weights:
        return model.spec
    settings = {name: value for name, value in model.spec["settings"].items() if name != "weights"}
    return model.spec | {"settings": settings}


def fingerprint_of_cell(module: str, file: str | None, model: str, model_file: str | None = None) -> str:
    """Fingerprint of all code that can change a cell's numbers: its method's, its model's and the engine's."""
    return digest(modules_of_cell(module, file, model, model_file))


def modules_of_cell(module: str, file: str | None, model: str, model_file: str | None = None) -> dict[str, str]:
    """The modules that `fingerprint_of_cell` covers, as `modules` and `modules_of_model` name them."""
    of_method = modules(module, Path(file) if file else None, [ENGINE])
    return of_method | modules_of_model(model, Path(model_file) if model_file else None)


def modules_of_model(module: str, file: Path | None) -> dict[str, str]:
    """As `modules`, for a model: "model" is before names outside the package, as a method may have the same names."""
    return {name if is_ours(name) else f"model {name}": code for name, code in modules(module, file).items()}


def check_helpers(row: MethodRow, model: Configured) -> None:
    """Raises UserError where a method's file and a model's have different helpers of one name: one process has one."""
    method = row.component
    if not (method.file and model.file) or Path(method.file).resolve().parent == Path(model.file).resolve().parent:
        return
    helpers = [{*modules(c.module, Path(c.file))} - {c.name} for c in (method, model) if c.file]
    for name in sorted(name for name in set.intersection(*helpers) if not is_ours(name)):
        both = f"method '{method.reference}' and model '{model.reference}'"
        raise UserError(f"{both} have different helpers called '{name}' beside them; rename one of the two")
