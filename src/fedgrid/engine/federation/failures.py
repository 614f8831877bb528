"""Federations as they are: participants that never start, that are too slow, or whose upload is lost.

What befalls a client is drawn by its number, the seed and the round, so it is the same for every method.
"""

import numpy as np
import torch

from fedgrid.engine.federation.federation import Federation
from fedgrid.engine.federation.method import Method
from fedgrid.engine.federation.simulation import Simulation
from fedgrid.engine.local.executor import joined
from fedgrid.engine.state.state import State
from fedgrid.errors import UserError
from fedgrid.randomness import generator
from fedgrid.settings import averages_missing
from fedgrid.tree import Tree


def started(simulation: Simulation, participants: np.ndarray, round_: int) -> np.ndarray:
    """Those of the participants [n] that start; it may be none."""
    training = simulation.training
    if not training.dropout or training.dropout_at != "start":
        return participants
    drops_out = _affected(simulation, "dropout", participants.tolist(), round_, training.dropout)
    return np.compress(~drops_out, participants)


def stragglers(simulation: Simulation, participants: np.ndarray, round_: int) -> dict[int, float]:
    """The slow ones of the participants [n], with the share of its local steps after which each is stopped."""
    training = simulation.training
    if not training.stragglers:
        return {}
    slow = _affected(simulation, "stragglers", participants.tolist(), round_, training.stragglers)
    return dict.fromkeys(participants[slow].tolist(), training.straggler_work)


def round_with_failures(method: Method, fed: Federation) -> State:
    """A method's round in which some uploads may be lost.

    The server's new state is that of a round of those whose uploads arrive; without any, it stays as it was. The others
    train as in a round of theirs of which the server learns nothing: they keep their own new state, and what the server
    keeps for them (`Method.server_rows`) stays as it was. Their uploads are sent, so their bytes count.
    """
    lost = lost_uploads(fed)
    if not lost.any():
        return _round(method, fed)
    server, states = fed.state.server, []
    for is_lost in (False, True):
        where = torch.from_numpy(np.flatnonzero(lost == is_lost)).to(fed.ids.device)
        if len(where):
            part = fed.subset(where)
            state = _round(method, part)
            part.state.require_same_entries(state)
            if is_lost:
                kept = {name: t for name, t in part.state.clients.items() if name in method.server_rows}
                state = state.update(clients=kept)
            else:
                server = state.server
            states.append((where, state))
    return _merged(fed, server, states)


def lost_uploads(fed: Federation) -> np.ndarray:
    """Whose uploads are lost in this round, bool [n]."""
    training = fed.simulation.training
    share = training.dropout if training.dropout_at == "upload" else 0.0
    return _affected(fed.simulation, "dropout", fed.numbers, fed.round, share)


def failures(fed: Federation) -> dict[str, torch.Tensor]:
    """What is recorded of the participants where some may fail, [n] each: `upload_lost`, 0 or 1, and `work`.

    The latter is the share of its local steps that a participant takes.
    """
    training, metrics = fed.simulation.training, {}
    if training.dropout and training.dropout_at == "upload":
        metrics["upload_lost"] = fed.weights.new_tensor(lost_uploads(fed))
    if training.stragglers:
        metrics["work"] = fed.weights.new_tensor([fed.work.get(client, 1.0) for client in fed.numbers])
    return metrics


def _round(method: Method, fed: Federation) -> State:
    """A method's round; UserError if there was no upload to attack, or none to aggregate, where the study wants it."""
    training, state = fed.simulation.training, method.round(fed, fed.state)
    wanted = {"attack": training.attacks_uploads, "aggregation": training.aggregation != "mean"}
    if any(is_wanted and name not in fed.effects for name, is_wanted in wanted.items()):
        raise UserError(averages_missing(training, method.title or type(method).__name__))
    return state


def _affected(simulation: Simulation, purpose: str, clients: list[int], round_: int, share: float) -> np.ndarray:
    """Which of the clients [n] a chance of `share` hits in this round."""
    if not share:
        return np.zeros(len(clients), dtype=bool)
    keys = ((simulation.seed, simulation.data.number(client), round_) for client in clients)
    return np.array([generator(purpose, *key).random() < share for key in keys], dtype=bool)


def _merged(fed: Federation, server: Tree, states: list[tuple[torch.Tensor, State]]) -> State:
    """One state of all participants from those of its parts, each with its positions [m]."""
    clients = joined(fed.size, [(where, state.clients) for where, state in states])
    quantities = joined(fed.size, [(where, Tree(state.quantities)) for where, state in states])
    trained = [(where, state.trained) for where, state in states if state.trained is not None]
    return State(server, clients, joined(fed.size, trained) if trained else None, quantities)
