"""Texts and signals beside a plain loop of torch: FedAvg and FedPer with torch's own layers, client by client."""

from dataclasses import replace

import pytest
import torch
from torch import nn
from torch.nn.functional import cross_entropy

from fedgrid.data.common.images import SIGNAL, TEXT
from fedgrid.engine.local.task import LocalTask
from fedgrid.engine.rounds import federate
from fedgrid.loading import load
from fedgrid.models.fasttext import FastText
from fedgrid.models.har_cnn import HARCNN
from fedgrid.models.lstm import LSTM
from fedgrid.suite import made_samples, simulations

TRAINING = {"dtype": "float64", "rounds": 3, "local_epochs": 2, "lr": 0.1, "eval_every": 3}
ROUNDS, EPOCHS, RATE = TRAINING["rounds"], TRAINING["local_epochs"], TRAINING["lr"]


class Bag(nn.Module):
    """`EmbeddingBag` over the words of texts, padding left out."""

    def __init__(self, vocabulary, width):
        super().__init__()
        self.embedding = nn.EmbeddingBag(vocabulary, width, mode="mean", padding_idx=0)

    def forward(self, tokens):
        return self.embedding(tokens)


class LastState(nn.Module):
    """The state of torch's LSTM after the last word of texts, which it is given packed; zeros of a text without any."""

    def __init__(self, vocabulary, embedding, features):
        super().__init__()
        self.embedding, self.lstm = nn.Embedding(vocabulary, embedding), nn.LSTM(embedding, features, batch_first=True)

    def forward(self, tokens):
        lengths = (tokens > 0).sum(dim=1)
        some, zeros = lengths > 0, torch.zeros(len(tokens), self.lstm.hidden_size, dtype=torch.float64)
        if not some.any():
            return zeros
        packed = nn.utils.rnn.pack_padded_sequence(
            self.embedding(tokens[some]), lengths[some], batch_first=True, enforce_sorted=False
        )
        last = self.lstm(packed)[1][0][0]
        return zeros.index_put((torch.nonzero(some)[:, 0],), last)


def bag(theta):
    module = Bag(*theta["extractor.embedding.weight"].shape)
    return module, {"embedding.weight": "extractor.embedding.weight"}


def recurrent(theta):
    vocabulary, embedding = theta["extractor.embedding.weight"].shape
    module = LastState(vocabulary, embedding, theta["head.weight"].shape[1])
    nn.init.zeros_(module.lstm.bias_hh_l0).requires_grad_(False)  # torch has two biases that are only ever added
    names = {"weight_ih_l0": "inputs.weight", "bias_ih_l0": "inputs.bias", "weight_hh_l0": "recurrent.weight"}
    of_layer = {f"lstm.{name}": f"extractor.layers.0.{ours}" for name, ours in names.items()}
    return module, {"embedding.weight": "extractor.embedding.weight"} | of_layer


def convolutions(theta):
    """As one-dimensional convolutions, with ReLU before the pooling."""
    first, second, last = (theta[f"extractor.{place}.weight"].shape for place in (0, 3, 7))

    def layer(shape):
        return nn.Conv1d(shape[1], shape[0], shape[3], padding=shape[3] // 2)

    module = nn.Sequential(
        *(layer(first), nn.ReLU(), nn.MaxPool1d(2), layer(second), nn.ReLU(), nn.MaxPool1d(2), nn.Flatten()),
        *(nn.Linear(last[1], last[0]), nn.ReLU()),
    )
    return module, {f"{at}.{kind}": f"extractor.{at}.{kind}" for at in (0, 3, 7) for kind in ("weight", "bias")}


CASES = {
    "fastText": (TEXT, FastText(features=8), bag),
    "LSTM": (TEXT, LSTM(features=6, embedding=5), recurrent),
    "HAR-CNN": (SIGNAL, HARCNN(features=8, channels=4, width=3), convolutions),
}


class PlainClient:
    """A client with a network of torch's own layers, which `theta` fills and `read` gives back."""

    def __init__(self, plain, theta, simulation, number):
        self.module, self.names = plain(theta)
        self.head = nn.Linear(*reversed(theta["head.weight"].shape))
        self.both = nn.Sequential(self.module, self.head).double()
        self.simulation, self.number = simulation, number

    def fill(self, theta):
        parameters = dict(self.module.named_parameters())
        with torch.no_grad():
            for name, source in self.names.items():
                parameters[name].copy_(theta[source].reshape(parameters[name].shape))
            self.head.weight.copy_(theta["head.weight"])
            self.head.bias.copy_(theta["head.bias"])

    def read(self, like):
        parameters = {source: dict(self.module.named_parameters())[name] for name, source in self.names.items()}
        parameters |= {"head.weight": self.head.weight, "head.bias": self.head.bias}
        return {name: parameters[name].detach().clone().reshape(t.shape) for name, t in like.items()}

    def train(self, round_):
        s, index = self.simulation, self.simulation.data.train[self.number]
        size, who = s.training.batch_size, [self.number]
        task = LocalTask(s.data, s.data.train, s.model, size, s.seed, round_, who, {}, {}, {})
        optimizer = torch.optim.SGD([p for p in self.both.parameters() if p.requires_grad], lr=RATE)
        for epoch in range(EPOCHS):
            for some in torch.from_numpy(task.order(self.number, epoch)).split(size):
                x, y = self.samples(index[some])
                optimizer.zero_grad()
                cross_entropy(self.both(x), y).backward()
                optimizer.step()

    def samples(self, index):
        data = self.simulation.data
        if data.holds_texts:
            return data.images[index].flatten(1).long(), data.labels[index]
        signals = data.images[index].flatten(2).double()  # [B, channels, readings]
        return (signals - data.centre[0, :, :, 0]) / data.spread[0, :, :, 0], data.labels[index]


def simulation_of(kind, model):
    images = simulations.of_kind(kind, **TRAINING)
    shape = made_samples.SHAPES[kind]
    return replace(images, model=model.network(shape, images.data.classes, images.data.vocabulary))


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("method", ["fedavg", "fedper"])
def test_a_plain_loop_gives_the_same_numbers(case, method):
    kind, model, plain = CASES[case]
    simulation = simulation_of(kind, model)
    outcome = federate(load("methods", method)(), simulation)
    start = {name: t.double() for name, t in simulation.model.initial(simulation.seed).items()}
    clients = [PlainClient(plain, start, simulation, i) for i in range(simulation.data.clients)]
    sizes = torch.tensor([len(index) for index in simulation.data.train]).double()
    shared, own = start, [start] * len(clients)
    for round_ in range(ROUNDS):
        for i, client in enumerate(clients):
            head = own[i] if method == "fedper" else shared
            client.fill({name: (head if name.startswith("head") else shared)[name] for name in start})
            client.train(round_)
            own[i] = client.read(start)
        shared = {n: sum(size * theta[n] for size, theta in zip(sizes / sizes.sum(), own, strict=True)) for n in start}
    state = outcome.progress.state
    for name, t in state.server.theta.items():
        torch.testing.assert_close(t, shared[name], rtol=1e-6, atol=1e-6)
        moved = (t - start[name]).abs().max()
        assert moved > 1e-3, f"{name} has not been trained"
