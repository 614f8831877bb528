"""What several tests of the workflow need."""

import pytest
from forked import Forker
from processes import listening

from fedgrid.jobs import warm


@pytest.fixture(scope="module")
def forker():
    """Forks the processes of every `forked.Forked` checkout."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(warm.VARIABLE, "")
        server = listening(Forker)
        yield
        server.stop()


@pytest.fixture
def checkout(finished, tmp_path):
    """A copy of the module's finished checkout."""
    return finished.copied(tmp_path / "tree")
