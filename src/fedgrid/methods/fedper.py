"""FedPer: clients share and average the extractor, keep their own head, and train both together.

Arivazhagan, Aggarwal, Singh & Choudhary, Federated Learning with Personalization Layers, arXiv 1912.00818, 2019.

    φ     s.server.theta (the shared part of θ)
    π_i   in s.clients.theta, which holds all of θ_i
"""

from fedgrid.methods import Federation, Identity, Method, State, Tree, hp


class FedPer(Method):
    source = "Arivazhagan et al., 2019"
    family = "split model: shared extractor, own heads"
    cite = "arivazhagan2019fedper"
    score = "received"
    work = "E"
    averages_uploads = True
    shares = "φ"
    down = up = "|φ|"
    identities = [
        Identity("fedavg", {"local_part": "nothing"}),
        Identity("local", {"local_part": "all"}),
        Identity("local", clients=1),
    ]

    local_part: str = hp("head", choices=("head", "nothing", "all"), was="keep")
    "The part of θ that stays with the client."

    def shared(self, theta: Tree) -> Tree:
        """The part of θ (or of a stack of them) that travels."""
        return {"head": theta.part("extractor"), "nothing": theta, "all": Tree()}[self.local_part]

    def setup(self, fed: Federation) -> State:
        theta = fed.initial()
        return State(server={"theta": self.shared(theta)}, clients={"theta": fed.replicate(theta)})

    def round(self, fed: Federation, s: State) -> State:
        theta = self.trained(fed, s.clients.theta | fed.broadcast(s.server.theta))
        average = fed.average(fed.upload(self.shared(theta)))
        return s.update(server={"theta": average}, clients={"theta": theta}, trained=theta)

    def trained(self, fed: Federation, theta: Tree) -> Tree:
        """θ after local training, which starts from what was received and one's own."""
        return fed.train(theta, self.loss).theta

    def received(self, fed: Federation, s: State) -> Tree:
        return s.clients.theta | fed.replicate(s.server.theta)
