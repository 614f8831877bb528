"""Trees and numbers that are equal up to a tolerance, which is absolute; both are in float64."""

import torch

DOUBLE = {"dtype": "float64"}
"The setting of a study in which every number is of this type."


def doubles(*rows):
    """A tensor of these numbers or rows."""
    return torch.tensor(rows, dtype=torch.float64)


def near(ours, expected, tolerance=1e-12):
    """Asserts that numbers are equal."""
    expected = torch.as_tensor(expected, dtype=torch.float64)
    torch.testing.assert_close(torch.as_tensor(ours, dtype=torch.float64), expected, rtol=0, atol=tolerance)


def near_printed(ours, expected, tolerance=1e-6):
    """Asserts that numbers are equal where a test gives six digits of them."""
    near(ours, expected, tolerance)


def all_near(ours, expected, tolerance=1e-12):
    """Asserts that trees have the same names, and tensors of the same types that are equal."""
    assert set(ours) == set(expected)
    for name in ours:
        torch.testing.assert_close(ours[name], expected[name], rtol=0, atol=tolerance)
