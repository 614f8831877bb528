"""Methods outside the package, one for every need that the list of methods has of the contract."""

import math
from pathlib import Path

import pytest
import torch
import worlds

from fedgrid.engine.progress import load_checkpoint
from fedgrid.engine.rounds import Saving, everyone, federate
from fedgrid.loading import load
from fedgrid.tree import leaves

FOLDER = Path(__file__).parent / "contract"
FILES = sorted(file.stem for file in FOLDER.glob("*.py"))


def scratch(name, **settings):
    return load("methods", str(FOLDER / f"{name}.py"))(**settings)


def final(method, world):
    return federate(method, world).progress.state


@pytest.mark.parametrize("participation", [1.0, 0.5])
@pytest.mark.parametrize("name", FILES)
def test_runs_and_resumes(name, participation, tmp_path):
    method, world = scratch(name), worlds.ragged(participation=participation)
    saving = Saving(tmp_path / "cell.checkpoint", "key", every=0.0)

    def kill(progress, remark):
        if progress.rounds == 2:
            raise worlds.Killed

    with pytest.raises(worlds.Killed):
        federate(method, world, saving, kill)
    assert load_checkpoint(saving.file, "key", world.device)[0].rounds == 1
    resumed, whole = federate(method, world, saving), federate(method, world)
    assert whole.status == "ok"
    rows = whole.progress.record.rows
    assert all(math.isfinite(value) for *_, values in rows for value in values)
    assert {metric for _, metric, *_ in rows} >= {"accuracy_personal", "accuracy_trained", "bytes_up", "bytes_down"}
    assert resumed.progress.record.rows == rows
    assert_equal(resumed.progress.state.server, whole.progress.state.server)
    assert_equal(resumed.progress.state.clients, whole.progress.state.clients)


@pytest.mark.parametrize("name", FILES)
def test_a_client_without_images(name):
    world = worlds.world([[], worlds.draw([0, 1, 2]), worlds.draw([3, 4, 5])], [worlds.draw([0])] * 3)
    outcome = federate(scratch(name), world)
    assert outcome.status == "ok"
    assert all(math.isfinite(value) for *_, values in outcome.progress.record.rows for value in values)


@pytest.mark.parametrize("name", FILES)
def test_declared_identities(name):
    cls = type(scratch(name))
    for identity in cls.identities:
        world = worlds.ragged(participation=0.5)
        ours, theirs = cls(**identity.given), worlds.method(identity.other, **identity.other_given)
        assert_equal(models(ours, world, identity.models), models(theirs, world, identity.models))


def models(method, world, kind):
    state = final(method, world)
    if kind == "global":
        return method.global_model(state)
    with torch.no_grad():
        return method.personal(everyone(world, world.training.rounds), state)


@pytest.mark.parametrize("participation", [1.0, 0.5])
def test_cfl_that_never_splits_is_fedavg(participation):
    world = worlds.ragged(participation=participation)
    state = final(scratch("cfl", small=0.0), world)
    assert not state.server.cluster.any()
    assert_near(
        {key: t[0] for key, t in state.server.models.items()}, final(worlds.method("fedavg"), world).server.theta
    )


def test_cfl_splits_and_gives_children_their_parent_and_their_own_updates():
    world = worlds.ragged(rounds=1)
    eager = scratch("cfl", small=1e9, large=0.0)
    state = final(eager, world)
    assert sorted(state.server.cluster.unique().tolist()) == [0, 1]
    members = (state.server.cluster == 1).nonzero().flatten().tolist()
    alone = worlds.world([world.data.train[i].tolist() for i in range(5)], rounds=1)
    trained = federate(worlds.method("local"), alone).progress.state.clients.theta
    share = torch.tensor([len(world.data.train[i]) for i in members], dtype=torch.float64)
    share = (share / share.sum()).float()
    mean = {key: torch.tensordot(share, t[members], 1) for key, t in trained.items()}
    assert_near({key: t[1] for key, t in state.server.models.items()}, mean)


def test_pfedhn_stays_where_nobody_trains():
    world = worlds.ragged(local_epochs=0)
    method = scratch("pfedhn")
    before = method.setup(everyone(world, 0)).server.phi
    assert_equal(final(method, world).server.phi, before)
    moved = final(method, worlds.ragged()).server.phi
    assert all((moved[key] - before[key]).abs().max() > 0 for key in before)


def test_knn_per_limits():
    world = worlds.ragged()
    rows, plain = (
        federate(m, world).progress.record.rows for m in (scratch("knn_per", lam=0.0), worlds.method("fedavg"))
    )
    assert metric(rows, "accuracy_personal") == metric(plain, "accuracy_personal")
    own = worlds.ragged()
    own.data.test[:] = own.data.train  # the nearest neighbour of a stored image is itself
    rows = federate(scratch("knn_per", lam=1.0, neighbours=1), own).progress.record.rows
    assert all(value == 1 for values in metric(rows, "accuracy_personal") for value in values)


def metric(rows, name):
    return [values for _, found, _, values in rows if found == name]


def assert_equal(ours, theirs):
    for a, b in zip(leaves(ours), leaves(theirs), strict=True):
        torch.testing.assert_close(a, b, rtol=0, atol=0, equal_nan=True)


def assert_near(ours, theirs):
    assert set(ours) == set(theirs)
    for key in ours:
        torch.testing.assert_close(ours[key], theirs[key], rtol=0, atol=1e-6)
