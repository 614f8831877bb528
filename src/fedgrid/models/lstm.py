"""A long short-term memory over a text's words, its state after the last word | classes.

Gates are those of torch's LSTM, in its order (input, forget, cell, output), as layers of their own: torch's module has
no form in which the parameters of many clients are stacked. Where a text has ended, the state stays as it is, so that
padding changes nothing. McMahan et al. (AISTATS 2017, Sec. 3) read Shakespeare's characters, embedded in 8 numbers,
with two layers of 256.
"""

import torch
from torch import Tensor, nn

from fedgrid.components import hp
from fedgrid.models.base import TextModel
from fedgrid.models.common.texts import held

GATES = 4


class LSTM(TextModel):
    title = "LSTM"
    source = "Hochreiter & Schmidhuber, Neural Computation 1997, with Gers et al.'s forget gate (2000)"

    features: int = hp(128, low=1, high=65_536)
    "Width k of the state, whose last one is the representation z."
    embedding: int = hp(64, low=1, high=65_536)
    "Width of a word's embedding."
    layers: int = hp(1, low=1, high=16)
    "Layers, each of which reads the states of the one before."

    def encoder(self, length: int, vocabulary: int) -> nn.Module:
        return Recurrent(vocabulary, self.embedding, self.features, self.layers)


class Recurrent(nn.Module):
    """From tokens [B, words], 0 where a text has ended, to the last layer's state [B, features] after its last word."""

    def __init__(self, vocabulary: int, embedding: int, features: int, layers: int):
        super().__init__()
        self.embedding = nn.Embedding(vocabulary, embedding)
        widths = [embedding, *[features] * layers]
        self.layers = nn.ModuleList(Layer(before, features) for before in widths[:-1])

    def forward(self, tokens: Tensor) -> Tensor:
        states, words = self.embedding(tokens), held(tokens)
        for layer in self.layers:
            states = layer(states, words)
        last: Tensor = states[:, -1]
        return last


class Layer(nn.Module):
    """States [B, words, features] from inputs [B, words, width]."""

    def __init__(self, width: int, features: int):
        super().__init__()
        self.inputs = nn.Linear(width, GATES * features)
        self.recurrent = nn.Linear(features, GATES * features, bias=False)

    def forward(self, x: Tensor, words: Tensor) -> Tensor:
        of_inputs, states = self.inputs(x), list[Tensor]()
        state = cell = of_inputs[:, 0, : self.recurrent.in_features] * 0
        for place in range(x.shape[1]):
            gates = of_inputs[:, place] + self.recurrent(state)
            write, keep, content, read = gates.chunk(GATES, dim=1)
            is_word = words[:, place, None]
            cell = torch.where(is_word, keep.sigmoid() * cell + write.sigmoid() * content.tanh(), cell)
            state = torch.where(is_word, read.sigmoid() * cell.tanh(), state)
            states.append(state)
        return torch.stack(states, dim=1)
