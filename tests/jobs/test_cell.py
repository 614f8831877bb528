"""What a cell's file says beside its numbers."""

import pytest
from studies import prepared, study_of

from fedgrid.engine.state.saving import Saving
from fedgrid.files import read_metadata
from fedgrid.jobs.cell import train

SYNTHETIC = {"name": "synthetic", "train_images": 240, "test_images": 60, "size": 8, "class_count": 2}
DOMAINS = ["domain 0", "domain 1", "domain 2"]


@pytest.fixture
def metadata(tmp_path):
    """Trains the one cell of a study of a round; its metadata."""

    def actual(**changes):
        study = study_of(
            results=str(tmp_path), seeds=[0], **{"methods": ["local"], "training": {"rounds": 1}} | changes
        )
        (cell,) = prepared(study).cells
        train(cell, cell.file, study.compute, Saving(cell.checkpoint, cell.key, every=1e9))
        return read_metadata(cell.file)

    return actual


@pytest.mark.parametrize(
    "domains, heterogeneity, actual",
    [
        (3, {"partition": "domains"}, DOMAINS),
        (3, {"partition": "domains", "clients": 6, "test": "official"}, DOMAINS * 2),
        (3, {"partition": "homogeneous", "clients": 2}, [None, None]),
        (1, {"partition": "homogeneous", "clients": 2}, [None, None]),
    ],
)
def test_the_domain_of_every_client_that_has_one(metadata, domains, heterogeneity, actual):
    data = SYNTHETIC | {"domain_count": domains}
    assert metadata(data=data, heterogeneity=[heterogeneity])["domains"] == actual


def test_costs_hold_the_phases_that_a_method_names(metadata):
    seconds = metadata(methods=["pfedgraph"])["costs"]["seconds"]
    assert set(seconds.pop("phases")) == {"similarity", "optimisation", "mixture"}
    assert seconds.pop("total") == pytest.approx(sum(seconds.values())) and set(seconds) == {
        "train",
        "server",
        "evaluate",
    }
    assert metadata(methods=["local"])["costs"]["seconds"]["phases"] == {}
