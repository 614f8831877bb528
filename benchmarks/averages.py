"""Does an average of clients whom Adam has trained still look at the image? FedAvg in plain torch, without the engine.

``python -m benchmarks.averages --lr 0.003`` trains 20 clients on the training images of CIFAR-10 below FEDGRID_DATA, by
Dirichlet 0.1, with the network that is assumed for FedCoSR. For each round it prints how many channels of the second
convolution are on for any of 500 images.
"""

import argparse
import copy
from collections.abc import Iterator
from functools import partial

import torch
from torch import Tensor
from torch.utils.data import TensorDataset

from benchmarks.plain import Client, Net, average, fit
from benchmarks.worker import DEFAULTS, dealt, images

JOB = DEFAULTS | {"images": 50_000}
PROBES = 500
BLOCKS = 5
"Layers up to the ReLU behind the second convolution."


def rounds(pixels: Tensor, labels: Tensor, clients: list[Tensor], lr: float) -> Iterator[int]:
    """Channels of the average that are on after each round of an epoch each, without end.

    `pixels` [n, 3, 32, 32] are normalised; `clients` has the images of each.
    """
    server = Net()
    sets = [TensorDataset(pixels[own], labels[own]) for own in clients]
    members = [Client(own, own, copy.deepcopy(server), partial(torch.optim.Adam, lr=lr)) for own in sets]
    while True:
        for client in members:
            client.model.load_state_dict(server.state_dict())
            fit(client, JOB["batch_size"], "cpu", {})
        average(server, members)
        with torch.no_grad():
            seen = server.base[:BLOCKS](pixels[:PROBES])
        yield int((seen > 0).any(dim=(0, 2, 3)).sum())


def federation() -> tuple[Tensor, Tensor, list[Tensor]]:
    """Normalised pixels, labels, and the images of each client that has any."""
    stored, labels = images(JOB)
    pixels = torch.from_numpy(stored).permute(0, 3, 1, 2).float()
    deviation, mean = torch.std_mean(pixels, dim=(0, 2, 3), keepdim=True)
    clients = [own for own in dealt(JOB, labels)[0] if len(own)]
    return (pixels - mean) / deviation, torch.from_numpy(labels), clients


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.averages", description=__doc__.partition("\n")[0])
    parser.add_argument("--lr", type=float, default=0.003, help="Adam's rate (default: 0.003)")
    parser.add_argument("--rounds", type=int, default=2, help="(default: 2)")
    parser.add_argument("--seed", type=int, default=0, help="of the first network and of the batches (default: 0)")
    asked = parser.parse_args()
    torch.set_num_threads(1)
    torch.manual_seed(asked.seed)
    for number, on in zip(range(1, asked.rounds + 1), rounds(*federation(), asked.lr), strict=False):
        print(f"round {number}: {on} of 64 channels are on", flush=True)


if __name__ == "__main__":
    main()
