"""Losses and steps that see images as the study wants them in training: augmented, moved by an adversary."""

from collections.abc import Callable
from functools import partial
from typing import Any

from fedgrid.engine.local import attacks
from fedgrid.engine.local.augmentation import augmented
from fedgrid.engine.local.client_data import ClientData
from fedgrid.engine.local.context import Batch, LossContext
from fedgrid.settings import Training


def altered(
    function: Callable[[Any, Any, LossContext], Any], data: ClientData, training: Training, model: attacks.ModelOf
) -> Callable[[Any, Any, LossContext], Any]:
    """A loss or a step, a function of (θ, batch or batches, at), with the images altered before it sees them.

    An adversary moves them against `model`, a function (θ, at) → parameters.
    """
    changes: list[Callable[[Any, Batch, LossContext, int], Batch]] = []
    if training.augmentation != "none":
        changes.append(lambda theta, batch, at, number: augmented(batch, at, number))
    if training.adversarial is not None:
        attack = attacks.of_training(training.adversarial, data.colour)
        changes.append(partial(attacks.moved_in_training, attack, data.pixels, model))
    if not changes:
        return function

    def with_altered_images(theta: Any, batch_or_batches: Any, at: LossContext) -> Any:
        several = isinstance(batch_or_batches, list)
        batches = list(batch_or_batches) if several else [batch_or_batches]
        for change in changes:
            batches = [change(theta, batch, at, number) for number, batch in enumerate(batches)]
        return function(theta, batches if several else batches[0], at)

    return with_altered_images
