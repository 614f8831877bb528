"""The pretended device behaves and counts as CUDA does."""

import io

import pytest
import torch
from pretended import DEVICE, Counts, Mixed, Pretended, machine


@pytest.fixture
def used():
    with machine() as actual:
        yield actual


@pytest.fixture
def x(used):
    """[2, 3] on the device."""
    return torch.arange(6.0).reshape(2, 3).to(DEVICE)


COUNTS = {
    "one operator": (lambda x: x + 1, Counts(operators=1)),
    "a view": (lambda x: x[0].unsqueeze(0).expand(4, 3), Counts()),
    "new memory": (lambda x: torch.empty_like(x), Counts()),
    "another type": (lambda x: x.double(), Counts(operators=1)),
    "a number": (lambda x: x[0, 0].item(), Counts(fetched=1)),
    "a truth value": (lambda x: bool(x[0, 0]), Counts(fetched=1)),
    "a position in a list": (lambda x: [7][x.long()[0, 0]], Counts(fetched=1, operators=1)),
    "numbers": (lambda x: x.tolist(), Counts(fetched=1)),
    "the processor's copy": (lambda x: x.cpu(), Counts(fetched=1)),
    "numbers one by one": (lambda x: [float(value) for value in x[0]], Counts(fetched=3)),
    "a comparison": (lambda x: torch.equal(x, x), Counts(fetched=1, operators=1)),
    "singular values": (lambda x: torch.linalg.svdvals(x), Counts(fetched=1, operators=1)),
    "places": (lambda x: x.nonzero(), Counts(fetched=1, operators=1)),
    "truth values as an index": (lambda x: x[x > 2], Counts(fetched=1, operators=2)),
    "one number where it is true": (lambda x: x.masked_fill_(x > 2, 0), Counts(operators=2)),
    "different values": (lambda x: x.unique(), Counts(fetched=1, operators=1)),
    "a list made a tensor": (lambda x: torch.tensor([1, 2], device=DEVICE), Counts(sent=1)),
    "a list as a tensor": (lambda x: torch.as_tensor([1, 2], device=DEVICE), Counts(sent=1)),
    "a list beside a tensor": (lambda x: x.new_tensor([1, 2]), Counts(sent=1)),
    "a list as an index": (lambda x: x[:, [0, 2]], Counts(sent=1, operators=1)),
    "an index of the processor": (lambda x: x[torch.tensor([1])], Counts(sent=1, operators=1)),
    "a copy to the device": (lambda x: torch.ones(3).to(DEVICE), Counts(sent=1)),
    "a copy onto the processor's": (lambda x: torch.ones(2, 3).copy_(x), Counts(fetched=1)),
    "what is there already": (lambda x: torch.as_tensor(x, device=DEVICE).to(DEVICE), Counts()),
    "made on the device": (lambda x: torch.arange(3, device=DEVICE), Counts(operators=1)),
    "a number of the processor": (lambda x: x * torch.tensor(2.0), Counts(operators=1)),
    "the processor's own": (lambda x: (torch.ones(3) + 1).tolist(), Counts()),
    "for each row": (lambda x: torch.vmap(lambda row: row.sum() * 2)(x), Counts(operators=2)),
    "for each of a list": (lambda x: torch._foreach_sqrt([x, x]), Counts(operators=1)),
    "for each of a list, in place": (lambda x: torch._foreach_add_([x[0], x[1]], 1.0), Counts(operators=1)),
}


@pytest.mark.parametrize("name", COUNTS)
def test_counts(used, x, name):
    function, expected = COUNTS[name]
    with used.counted() as actual:
        function(x)
    assert actual == expected


REFUSED = {
    "a sum": lambda x, host: x + host,
    "a sum, the other way": lambda x, host: host + x,
    "a sum in place": lambda x, host: x.add_(host),
    "the device's number onto the processor": lambda x, host: host.add_(x[0, 0]),
    "a product of matrices": lambda x, host: x @ host.T,
    "a choice": lambda x, host: torch.where(x > 0, x, host),
    "a longer tensor": lambda x, host: torch.cat([x, host]),
    "numbers side by side": lambda x, host: torch.stack([x[0, 0], host[0, 0]]),
    "an index of the device": lambda x, host: host[x.long()[0] % 2],
    "what is written at an index": lambda x, host: x.index_put_((torch.tensor([0, 1]),), host),
    "selected rows": lambda x, host: x.index_select(0, torch.tensor([1])),
    "for each row": lambda x, host: torch.vmap(torch.add)(x, host),
}


@pytest.mark.parametrize("name", REFUSED)
def test_two_devices_do_not_meet(x, name):
    with pytest.raises(Mixed, match="on the device"):
        REFUSED[name](x, torch.ones(2, 3))


def test_numpy_knows_nothing_of_the_device(x):
    with pytest.raises(RuntimeError, match="numpy"):
        x.numpy()
    assert x.cpu().numpy().sum() == 15


def test_gradients_and_changes_in_place_are_those_of_the_processor(x):
    def slope(start):
        theta = start.clone().requires_grad_()
        (actual,) = torch.autograd.grad((theta[0] * theta[1]).square().sum(), theta)
        start[1] += actual[0]
        return start, actual, torch.func.grad(lambda t: (t @ t.T).trace())(start), start[0] @ start.T @ start[:, 2]

    for ours, theirs in zip(slope(x.clone()), slope(x.cpu()), strict=True):
        assert isinstance(ours, Pretended) and ours.device == DEVICE
        assert ours.shape == theirs.shape
        assert torch.equal(ours.cpu(), theirs)


def test_a_file_holds_what_was_fetched(x):
    file = io.BytesIO()
    torch.save({"x": x}, file)
    for place, kind in ((DEVICE, Pretended), ("cpu", torch.Tensor)):
        file.seek(0)
        actual = torch.load(file, map_location=place, weights_only=True)["x"]
        assert type(actual) is kind
        assert actual.tolist() == x.tolist()


def test_there_is_no_device_outside():
    with machine():
        x = torch.ones(3, device=DEVICE)
    with pytest.raises(RuntimeError, match="outside"):
        x + 1
    assert type(torch.ones(3) + 1) is torch.Tensor
