"""The cluster of the tests in this folder."""

from collections.abc import Iterator

import pytest
from cluster.one_node import Cluster, obstacle


@pytest.fixture(scope="session")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """A running cluster of one node with 4 CPUs and 2 fake GPUs, shared by all tests of a process."""
    if reason := obstacle():
        pytest.skip(f"no SLURM cluster here: {reason}")
    with Cluster(tmp_path_factory.mktemp("slurm")) as started:
        yield started
