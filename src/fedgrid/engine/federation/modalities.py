"""Runs methods that do not handle modalities: each modality's clients form a separate federation.

Participants are drawn from all clients, and a modality without participants does not change. Everything else is of one
modality: its clients count from 0, on plain data, with a network that has its extractor alone. Their state lies under
the modality's name in the state of the whole, whose rows of other modalities' clients are zeros.
"""

from collections.abc import Iterator
from dataclasses import replace

import torch
from torch import Tensor

from fedgrid.engine.federation.failures import round_with_failures
from fedgrid.engine.federation.federation import Federation
from fedgrid.engine.federation.method import Method
from fedgrid.engine.federation.simulation import Simulation
from fedgrid.engine.federation.traffic import Traffic
from fedgrid.engine.local.client_data import ClientData
from fedgrid.engine.state.state import State
from fedgrid.tree import Tree, placed, rows

View = tuple[Method, Federation, Federation | None, Tree | None]


class Apart(Method):
    """One method, run once for each modality."""

    method: Method
    data: ClientData

    def setup(self, fed: Federation) -> State:
        server, clients = Tree(), Tree()
        for name, where, part in parts(fed):
            state = self.method.setup(part)
            everywhere = state.clients.map(lambda t: t.new_zeros(fed.size, *t.shape[1:]))
            server[name], clients[name] = state.server, placed(everywhere, where, state.clients)
        return State(server, clients)

    def round(self, fed: Federation, s: State) -> State:
        server, clients, trained, quantities = Tree(s.server), Tree(s.clients), Tree(), Tree()
        for name, where, part in parts(fed):
            before = State(s.server[name], s.clients[name])
            merged = before.scatter(where, round_with_failures(self.method, part))
            server[name], clients[name] = merged.server, merged.clients
            if merged.trained is not None:
                trained[name] = merged.trained
            for quantity, values in merged.quantities.items():
                unknown = torch.full(fed.ids.shape, torch.nan, dtype=torch.float64, device=fed.ids.device)
                quantities.setdefault(quantity, unknown)[where] = values.double()
            for total, of_part in ((fed.traffic.up, part.traffic.up), (fed.traffic.down, part.traffic.down)):
                total[fed.ids[where]] += of_part[part.ids]
        return State(server, clients, trained, quantities)

    def cooperation(self, s: State) -> dict[str, Tensor]:
        matrices: dict[str, Tensor] = {}
        for ids, state in self._states(s):
            for name, matrix in self.method.cooperation(state).items():
                full = matrices.setdefault(name, matrix.new_zeros(self.data.clients, self.data.clients))
                full[ids.unsqueeze(1), ids] = matrix
        return matrices

    def clusters(self, s: State) -> dict[str, Tensor]:
        clusters: dict[str, Tensor] = {}
        for ids, state in self._states(s):
            groups = dict(self.method.clusters(state))
            if "client" in groups:
                groups["client"] = ids[groups["client"]]
            if "cluster" in clusters:
                groups["cluster"] = groups["cluster"] + clusters["cluster"].max() + 1
            clusters = {name: torch.cat([clusters[name], t] if name in clusters else [t]) for name, t in groups.items()}
        return clusters

    def _states(self, s: State) -> Iterator[tuple[Tensor, State]]:
        """Each modality's clients [m], and its server's state."""
        for number, name in enumerate(self.data.modalities):
            if name in s.server:
                ids = torch.tensor(self.data.only(number).numbers, device=self.data.labels.device)
                yield ids, State(s.server[name])


def round_of(method: Method, fed: Federation) -> State:
    """One round of the participants, of whom some may fail."""
    return method.round(fed, fed.state) if isinstance(method, Apart) else round_with_failures(method, fed)


def apart(method: Method, simulation: Simulation) -> Method:
    """The method as the rounds call it: once for each modality, if it does not handle modalities itself."""
    data = simulation.data
    return Apart(method, data) if data.modality and not method.multimodal else method


def parts(fed: Federation) -> Iterator[tuple[str, Tensor, Federation]]:
    """Each modality's name, the positions [m] of its clients, and their federation."""
    for network, where in fed.modalities:
        name, data = network.modality, fed.simulation.data.only(int(fed.modality[where[0]]))
        ids = torch.searchsorted(torch.tensor(data.numbers, device=where.device), fed.ids[where])
        state = State(fed.state.server.get(name, {}), rows(fed.state.clients.get(name, {}), where))
        simulation = replace(fed.simulation, data=data, model=network)
        traffic = Traffic.none(data.clients, where.device)
        work = {i: fed.work[client] for i, client in enumerate(data.numbers) if client in fed.work}
        yield name, where, Federation(simulation, ids, fed.round, traffic, state, fed.phases, work)


def views(method: Method, fed: Federation, participants: Federation | None, trained: Tree | None) -> Iterator[View]:
    """The arguments of `evaluate`, one set for each modality where the method runs once for each."""
    if not isinstance(method, Apart):
        yield method, fed, participants, trained
        return
    took_part = {} if participants is None else {name: part for name, _, part in parts(participants)}
    for name, _, part in parts(fed):
        yield method.method, part, took_part.get(name), (trained or Tree()).get(name)
