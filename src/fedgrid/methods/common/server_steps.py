"""FedAvg's round with a step of the server in place of its average."""

import abc

from fedgrid.methods import Federation, State, Tree
from fedgrid.methods.fedavg import FedAvg


class ServerStep(FedAvg):
    """Clients train the server's model w, and the server moves w by a step that it makes of their updates θ_i − w.

    Batch-norm statistics are plain averages of the clients': an extrapolated variance could be negative.
    """

    @abc.abstractmethod
    def server_step(self, fed: Federation, updates: Tree, s: State) -> tuple[Tree, State]:
        """The step that w moves by, and the state with whatever else is new.

        `updates` [n, …] and the step are of the parameters alone, without batch norm's statistics.
        """

    def round(self, fed: Federation, s: State) -> State:
        w = fed.broadcast(s.server.theta)
        theta = fed.upload(fed.train(w, self.loss).theta)
        step, state = self.server_step(fed, fed.parameters(theta - w), s)
        statistics = fed.average({name: theta[name] for name in fed.model.statistics})
        moved = s.server.theta | statistics | (fed.parameters(s.server.theta) + step)
        return state.update(server={"theta": moved}, trained=theta)
