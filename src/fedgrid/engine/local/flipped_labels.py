"""Training data of clients who flip their labels: y becomes C − 1 − y.

Fang, Cao, Jia & Gong, Local Model Poisoning Attacks to Byzantine-Robust Federated Learning, USENIX Security 2020, flip
all labels so; Tolpegin et al., ESORICS 2020, those of some classes.
"""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial

import torch
from torch import Tensor

from fedgrid.engine.local.client_data import ClientData


def with_flipped_labels(data: ClientData, clients: Sequence[int]) -> ClientData:
    """The data where these clients train on copies of their samples, whose labels are flipped.

    They are copies since clients may share samples, and a sample that one trains on may be tested on elsewhere. Test
    and validation images keep their labels.
    """
    images, texts = len(data.images), 0 if data.tokens is None else len(data.tokens)
    copied = torch.cat([data.train[client] for client in clients])
    of_images, of_texts = copied[copied < images], copied[copied >= images]
    # samples are numbered through: images, their copies, texts, their copies
    samples = torch.arange(images + texts, device=copied.device)
    order = torch.cat([samples[:images], of_images, samples[images:], of_texts])
    starts = {False: images, True: len(order) - len(of_texts)}
    labels = data.labels[order]
    for start, number in ((starts[False], len(of_images)), (starts[True], len(of_texts))):
        labels[start : start + number] = data.classes - 1 - labels[start : start + number]
    renumbered = partial(_moved_texts, images=images, by=len(of_images))
    train = renumbered(data.train)
    for client in clients:
        index = data.train[client]
        is_text = bool(len(index)) and int(index[0]) >= images  # a client's samples are of one modality
        train[client] = torch.arange(starts[is_text], starts[is_text] + len(index), device=index.device)
        starts[is_text] += len(index)
    stored = data.images.permute(0, 2, 3, 1)
    return replace(
        data,
        images=torch.cat([stored, stored[of_images]]).permute(0, 3, 1, 2),
        labels=labels,
        tokens=None if data.tokens is None else torch.cat([data.tokens, data.tokens[of_texts - images]]),
        train=train,
        test=renumbered(data.test),
        validation=None if data.validation is None else renumbered(data.validation),
        samples=data.samples[order.cpu().numpy()] if len(data.samples) else data.samples,
    )


def _moved_texts(lists: list[Tensor], images: int, by: int) -> list[Tensor]:
    """Clients' indices where texts are numbered from `images` + `by` on; clients that share a list still do."""
    distinct = {id(index): index for index in lists}
    moved = {key: torch.where(index < images, index, index + by) for key, index in distinct.items()}
    return [moved[id(index)] for index in lists]
