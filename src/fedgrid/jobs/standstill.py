"""When the accuracy of a cell stands still."""

from collections.abc import Mapping
from itertools import takewhile

FEWEST_EQUAL = 10
"Mean accuracies in a row that are equal where one says that accuracy stands still."


def unchanged_since(accuracies: Mapping[int, float]) -> int | None:
    """The round since which the mean accuracy over clients, a fraction by round, is the same to the last bit.

    None where it is so in less than half of the rounds, or in fewer than `FEWEST_EQUAL`, or where all images are
    predicted right: elsewhere models that learn predict an image or two otherwise.
    """
    rounds = sorted(accuracies, reverse=True)
    equal = list(takewhile(lambda number: accuracies[number] == accuracies[rounds[0]], rounds))
    if len(equal) < max(FEWEST_EQUAL, len(rounds) / 2) or accuracies[rounds[0]] == 1.0:
        return None
    return equal[-1]
