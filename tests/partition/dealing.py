"""Settings of all kinds of heterogeneity, and what clients hold."""

from hypothesis import strategies as st

from fedgrid.partition.common.statistics import class_counts

COMMON = {
    "clients": st.integers(1, 30),
    "fraction": st.sampled_from([1.0, 0.5]),
    "test": st.sampled_from(["own", "official", "weighted"]),
    "validation": st.sampled_from([0.0, 0.2]),
    "keep_fraction": st.sampled_from([1.0, 0.3]),
    "scarce": st.sampled_from([None, 1]),
}


def counts_of(table, clients, classes):
    """Images of each client and class, whatever it does with them."""
    return sum(class_counts(table, clients, classes))
