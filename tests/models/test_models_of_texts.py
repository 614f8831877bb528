"""Models of texts and signals: padding changes nothing, texts without words have numbers, sizes that do not fit."""

import pytest
import torch

from fedgrid.errors import UserError
from fedgrid.models.fasttext import FastText
from fedgrid.models.har_cnn import HARCNN
from fedgrid.models.lstm import LSTM
from fedgrid.models.transformer import Transformer

VOCABULARY, LENGTH = 20, 12
MODELS = {
    "fasttext": FastText(features=6),
    "lstm": LSTM(features=6, embedding=4, layers=2),
    "transformer": Transformer(features=6, width=8, heads=2),
}


def network_of(name, length=LENGTH):
    network = MODELS[name].network((1, length, 1), 3, VOCABULARY)
    return network, network.initial(0).map(torch.Tensor.double)


@pytest.mark.parametrize("name", MODELS)
def test_padding_changes_nothing(name):
    network, theta = network_of(name)
    words = torch.randint(1, VOCABULARY, (4, 5), generator=torch.Generator().manual_seed(0))
    filled = torch.cat([words, torch.zeros(4, LENGTH - 5, dtype=torch.long)], dim=1)
    torch.testing.assert_close(network.features(theta, filled), network.features(theta, words))
    assert not torch.allclose(network.features(theta, words), network.features(theta, words[:, :4]))


@pytest.mark.parametrize("name", MODELS)
def test_a_text_without_words_has_a_gradient(name):
    network, theta = network_of(name)
    tokens = torch.zeros(2, LENGTH, dtype=torch.long)
    tokens[1, 0] = 3
    slopes = torch.func.grad(lambda t: network(t, tokens).square().sum())(theta)
    assert all(slope.isfinite().all() for slope in slopes.values())
    assert network.features(theta, tokens)[0].isfinite().all()


def test_fasttext_is_the_average_of_word_vectors():
    network, theta = network_of("fasttext")
    vectors = theta["extractor.embedding.weight"]
    tokens = torch.tensor([[4, 7, 7, 0], [5, 0, 0, 0]])
    expected = torch.stack([(vectors[4] + 2 * vectors[7]) / 3, vectors[5]])
    torch.testing.assert_close(network.features(theta, tokens), expected)


def test_an_lstm_is_torchs():
    network, theta = network_of("lstm")
    theirs = torch.nn.LSTM(4, 6, num_layers=2, batch_first=True).double()
    with torch.no_grad():
        for layer in range(2):
            ours = theta.part(f"extractor.layers.{layer}")
            getattr(theirs, f"weight_ih_l{layer}").copy_(ours[f"extractor.layers.{layer}.inputs.weight"])
            getattr(theirs, f"bias_ih_l{layer}").copy_(ours[f"extractor.layers.{layer}.inputs.bias"])
            getattr(theirs, f"weight_hh_l{layer}").copy_(ours[f"extractor.layers.{layer}.recurrent.weight"])
            getattr(theirs, f"bias_hh_l{layer}").zero_()
        tokens = torch.randint(1, VOCABULARY, (5, LENGTH), generator=torch.Generator().manual_seed(1))
        states = theirs(theta["extractor.embedding.weight"][tokens])[0]
        torch.testing.assert_close(network.features(theta, tokens), states[:, -1])


def test_sizes_that_do_not_fit():
    with pytest.raises(UserError, match="heads: 3 heads cannot share a width of 8"):
        Transformer(width=8, heads=3).network((1, LENGTH, 1), 3, VOCABULARY)
    with pytest.raises(UserError, match="at least 4 readings, not 3"):
        HARCNN().network((1, 3, 2), 3)
    with pytest.raises(UserError, match="4 readings have no middle"):
        HARCNN(width=4).network((1, 16, 2), 3)


@pytest.mark.parametrize("name", MODELS)
def test_operations_are_those_of_texts_as_long(name):
    """Twice as many words cost at least twice as much in all that reads words one by one."""
    short, long = (network_of(name, length)[0].flops((1, length, 1)) for length in (LENGTH, 2 * LENGTH))
    head = 2 * 6 * 3
    assert short >= head
    assert name == "fasttext" or long - head >= 1.9 * (short - head)
