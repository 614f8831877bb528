"""The baseline: FedAvg and FedCoSR as they are usually written, with a DataLoader per client and an eager model.

It trains and evaluates what fedgrid does in the same round, with batches in another order. Nothing of fedgrid's engine
is used.
"""

import copy
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy, normalize
from torch.utils.data import DataLoader, TensorDataset

ALPHA, GAMMA, TEMPERATURE = 1.0, 0.8, 0.1
SGD = partial(torch.optim.SGD, lr=0.05)


class Net(nn.Module):
    """The two-block CNN for 32×32×3 images, k = 128."""

    def __init__(self) -> None:
        super().__init__()
        first = [nn.Conv2d(3, 32, 5), nn.ReLU(), nn.MaxPool2d(2)]
        second = [nn.Conv2d(32, 64, 5), nn.ReLU(), nn.MaxPool2d(2)]
        self.base = nn.Sequential(*first, *second, nn.Flatten(), nn.Linear(1600, 128), nn.ReLU())
        self.head = nn.Linear(128, 10)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.base(x))


@dataclass
class Client:
    train: TensorDataset
    test: TensorDataset
    model: nn.Module
    optimizer: Callable[..., torch.optim.Optimizer] = SGD
    regularity: float | None = None


def rounds(
    method: str, train: list[TensorDataset], test: list[TensorDataset], batch_size: int, device: str
) -> Iterator[dict[str, float]]:
    """Seconds of training and evaluation of one round after the other."""
    server = Net().to(device)
    clients = [Client(*sets, copy.deepcopy(server)) for sets in zip(train, test, strict=True)]
    prototypes: dict[int, Tensor] = {}
    while True:
        start = time.perf_counter()
        for client in clients:
            if method == "fedavg":
                client.model.load_state_dict(server.state_dict())
                fit(client, batch_size, device, {})
            else:
                blend(client, server, prototypes, device)
                fit(client, batch_size, device, prototypes)
        if method == "fedcosr":
            prototypes = class_means(clients, device)
        average(server, clients)
        synchronise(device)
        middle = time.perf_counter()
        for client in clients:
            accuracy(client.model, client.test, device)
            accuracy(server if method == "fedavg" else client.model, client.test, device)
        synchronise(device)
        yield {"train": middle - start, "evaluate": time.perf_counter() - middle}


def fit(client: Client, batch_size: int, device: str, prototypes: dict[int, Tensor]) -> None:
    optimizer = client.optimizer(client.model.parameters())
    client.model.train()
    total = 0.0
    loader = DataLoader(client.train, batch_size=batch_size, shuffle=True)
    for images, labels in loader:
        x, y = images.to(device), labels.to(device)
        z = client.model.base(x)
        loss = cross_entropy(client.model.head(z), y)
        if prototypes:
            extra = contrast(z, y, prototypes)
            loss = loss + ALPHA * extra
            total += extra.item()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    client.regularity = total / len(loader) if prototypes else None


def contrast(z: Tensor, y: Tensor, prototypes: dict[int, Tensor]) -> Tensor:
    known = sorted(prototypes)
    centres = normalize(torch.stack([prototypes[label] for label in known]), dim=1)
    target = torch.tensor([known.index(int(label)) for label in y], device=z.device)
    return cross_entropy(normalize(z, dim=1) @ centres.T / TEMPERATURE, target)


@torch.no_grad()
def blend(client: Client, server: nn.Module, prototypes: dict[int, Tensor], device: str) -> None:
    if client.regularity is None and prototypes:
        batches = [(x.to(device), y.to(device)) for x, y in DataLoader(client.train, batch_size=256)]
        values = [contrast(client.model.base(x), y, prototypes).item() * len(y) for x, y in batches]
        client.regularity = sum(values) / len(client.train)
    trust = torch.exp(torch.tensor(-GAMMA * client.regularity)).item() if client.regularity is not None else 1.0
    for own, shared in zip(client.model.base.parameters(), server.base.parameters(), strict=True):
        own.copy_(trust * own + (1 - trust) * shared)


@torch.no_grad()
def class_means(clients: list[Client], device: str) -> dict[int, Tensor]:
    sums: dict[int, Tensor] = {}
    counts: dict[int, int] = {}
    for client in clients:
        for x, y in DataLoader(client.train, batch_size=256):
            z = client.model.base(x.to(device))
            for label in y.unique().tolist():
                sums[label] = sums.get(label, 0) + z[y == label].sum(dim=0)
                counts[label] = counts.get(label, 0) + int((y == label).sum())
    return {label: total / counts[label] for label, total in sums.items()}


@torch.no_grad()
def average(server: nn.Module, clients: list[Client]) -> None:
    images = sum(len(client.train) for client in clients)
    states = [client.model.state_dict() for client in clients]
    server.load_state_dict(
        {
            name: sum(len(c.train) / images * state[name] for c, state in zip(clients, states, strict=True))
            for name in states[0]
        }
    )


@torch.no_grad()
def accuracy(model: nn.Module, test: TensorDataset, device: str) -> float:
    model.eval()
    loader = DataLoader(test, batch_size=256)
    correct = sum((model(x.to(device)).argmax(dim=1) == y.to(device)).sum().item() for x, y in loader)
    return correct / max(1, len(test))


def synchronise(device: str) -> None:
    if device == "cuda":
        torch.cuda.synchronize()
