"""The models that a cell ends with, at each point of a round that its method has."""

from collections.abc import Iterator
from dataclasses import dataclass

from torch import Tensor

from fedgrid.engine.evaluation import Scores, among
from fedgrid.engine.federation.federation import Federation
from fedgrid.engine.federation.method import Method
from fedgrid.engine.federation.modalities import views
from fedgrid.engine.federation.participation import in_parts
from fedgrid.engine.federation.simulation import Simulation
from fedgrid.engine.local.context import LossContext
from fedgrid.engine.local.executor import Diverged
from fedgrid.engine.state.checkpoint import Progress
from fedgrid.tree import Tree


@dataclass(frozen=True)
class LastRound:
    """The participants of a cell's last round, with the state that they saw, and the models that they trained."""

    fed: Federation
    trained: Tree | None


@dataclass(frozen=True)
class FinalModels:
    """The models of some clients at one point of the last round, of one modality."""

    point: str
    "One of `fedgrid.engine.federation.method.SCORES`."
    fed: Federation
    "The n clients that have them, with the state that `predict` sees."
    theta: Tree
    "Stack [n, …]."
    predict: Scores

    @property
    def clients(self) -> list[int]:
        """The numbers of these clients by which users know them [n]."""
        return list(map(self.fed.simulation.data.number, self.fed.numbers))

    @property
    def by_network(self) -> bool:
        """Whether `predict` is what the network says, and not a method's own rule."""
        return getattr(self.predict, "__func__", self.predict) in (_by_model, Method.predict)


def final_models(
    method: Method, simulation: Simulation, progress: Progress, last: LastRound | None
) -> Iterator[FinalModels]:
    """The models of all clients but new ones after the last round, some clients at a time.

    Those that were `trained` need `last`. `method` is as the rounds call it; see
    `fedgrid.engine.federation.modalities.apart`.
    """
    took_part = (last.fed, last.trained) if last else (None, None)
    for part in in_parts(simulation, progress.rounds, simulation.scored, progress.population):
        for view in views(method, part, *took_part):
            yield from _at_each_point(*view)


def _at_each_point(
    method: Method, fed: Federation, participants: Federation | None, trained: Tree | None
) -> Iterator[FinalModels]:
    """As `fedgrid.engine.evaluation.evaluate` scores them: the global model predicts by its own output alone."""
    s = fed.state
    shared, received, adapted = method.global_model(s), method.received(fed, s), _adapted(method, fed)
    if shared is not None:
        for point in ["global", "received"] if received is None else ["global"]:
            yield FinalModels(point, fed, fed.replicate(shared), _by_model)
    if received is not None:
        yield FinalModels("received", fed, received, method.predict)
    if adapted is not None:
        yield FinalModels("adapted", fed, adapted, method.predict)
    participants, trained = among(fed, participants, trained)
    if participants is not None and trained is not None:
        yield FinalModels("trained", participants, trained, method.predict)


def _adapted(method: Method, fed: Federation) -> Tree | None:
    try:
        return method.adapted(fed, fed.state)
    except Diverged:  # in a cell that diverged, the last state may be one that was not scored
        return None


def _by_model(theta: Tree, x: Tensor, at: LossContext) -> Tensor:
    return at.model(theta, x)
