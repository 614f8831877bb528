"""Settings as tables and sentences name them."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from fedgrid.analysis.scores.results import DASH, Results


def flattened(values: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """Names and values of settings; the name of one inside a mapping has a dot, as in ``adversarial.eps``."""
    for name, value in values.items():
        if isinstance(value, Mapping):
            yield from ((f"{name}.{inner}", part) for inner, part in flattened(value))
        else:
            yield name, value


def setting_text(value: Any) -> str:
    """A value as a reader would write it: yes or no, a list with commas, a dash for none."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list):
        return ", ".join(map(setting_text, value))
    return DASH if value is None else str(value)


def column_names(results: Results, columns: Iterable[tuple[str, str]]) -> str:
    """The names of columns, for a sentence."""
    return "; ".join(
        f"{results.title(data)}, {results.heterogeneity_title(heterogeneity)}" for data, heterogeneity in columns
    )
