"""FedAvg: clients train the server's model, the server averages what they send back.

McMahan, Moore, Ramage, Hampson & Agüera y Arcas, Communication-Efficient Learning of Deep Networks from Decentralized
Data, AISTATS 2017, Algorithm 1.

    w     s.server.theta
    p_i   fed.weights, n_i / Σ n_j over the participants
"""

from fedgrid.methods import Federation, Identity, Method, State, Tree


class FedAvg(Method):
    source = "McMahan et al., AISTATS 2017"
    family = "one global model"
    cite = "mcmahan2017"
    score = "global"
    work = "E"
    averages_uploads = True
    shares = "θ"
    identities = [Identity("local", clients=1)]

    def setup(self, fed: Federation) -> State:
        return State(server={"theta": fed.initial()})

    def round(self, fed: Federation, s: State) -> State:
        local = fed.train(fed.broadcast(s.server.theta), self.loss)
        return s.update(server={"theta": fed.average(fed.upload(local.theta))}, trained=local.theta)

    def global_model(self, s: State) -> Tree | None:
        return s.server.theta
