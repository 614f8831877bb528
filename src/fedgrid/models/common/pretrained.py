"""Networks of the library timm without their classifiers, with published weights or those of a file.

timm is imported when such a network is asked for: it is an extra of fedgrid's.
"""

import hashlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any, cast

from torch import nn

from fedgrid.data.sources import torchvision_shim
from fedgrid.errors import UserError, nearest

HUB = "hub"
"The weights that are downloaded."


def library(advice: str = "") -> ModuleType:
    """The library timm; UserError, which ends with the `advice`, where it or what it needs is not installed."""
    try:
        torchvision_shim.load("torchvision")  # timm imports it
        import timm
    except ModuleNotFoundError as error:
        raise UserError(f"backbone: {error.name} is missing; pip install 'fedgrid[features]'{advice}") from error
    return timm


def check_known(timm: ModuleType, name: str, others: Sequence[str] = ()) -> None:
    """Raises UserError for a network that timm lacks; `others` are what else a user may have meant."""
    if not timm.is_model(name):
        raise UserError(f"backbone: unknown network; {nearest(name, [*others, *timm.list_models()])}")


def pretrained_network(timm: ModuleType, name: str, weights: str, advice: str) -> nn.Module:
    """The network with its published weights (`hub`) or those of a file.

    Raises UserError where they cannot be downloaded, which ends with the `advice`, and for the file of another network.
    """
    if weights == HUB:
        return _published(timm, name, advice)
    network: nn.Module = timm.create_model(name, pretrained=False, num_classes=0)
    _load(network, Path(weights).expanduser())
    return network


def _published(timm: ModuleType, name: str, advice: str) -> nn.Module:
    try:
        network: nn.Module = timm.create_model(name, pretrained=True, num_classes=0)
    except (OSError, RuntimeError) as error:
        raise UserError(
            f"weights: those of '{name}' could not be downloaded; copy model.safetensors from "
            f"'{timm.models.get_pretrained_cfg(name).hf_hub_id}' on the Hugging Face hub to this machine and set "
            f"weights to its path{advice}"
        ) from error
    return network


def _load(network: nn.Module, file: Path) -> None:
    """Loads all weights of the network; the file may also hold those of the classifier that it lacks."""
    from timm.models import load_state_dict

    if not file.is_file():
        raise UserError(f"weights: there is no file {file}; set weights to a .safetensors or .pth file, or to hub")
    try:
        state = load_state_dict(str(file), weights_only=True)
        missing, others = network.load_state_dict(state, strict=False)
    except Exception as error:  # in how many ways a file of weights can be wrong, only its readers know
        raise UserError(f"weights: {file} does not hold weights of this network ({type(error).__name__})") from error
    classifier = cast(Mapping[str, Any], network.pretrained_cfg)["classifier"] or ()
    wrong = [f"lacks {n}" for n in missing] + [f"has {n}" for n in others if not n.startswith(classifier)]
    if wrong:
        raise UserError(f"weights: {file} is of another network, it {wrong[0]}")


def digest_of_weights(network: nn.Module) -> str:
    """16 hexadecimal digits of the SHA-256 over names and values of all weights, whichever file they came in."""
    total = hashlib.sha256()
    for name, weights in network.state_dict().items():
        total.update(name.encode())
        total.update(weights.numpy().tobytes())
    return total.hexdigest()[:16]
