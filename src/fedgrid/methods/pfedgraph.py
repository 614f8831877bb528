"""pFedGraph: the server mixes for every client a model of its own, by a graph of who is similar to whom.

Ye, Ni, Wu, Chen & Wang, Personalized Federated Learning with Inferred Collaboration Graphs, ICML 2023. Row i of the
graph solves min_w α·‖w − p‖² − Σ_j S_ij w_j over the simplex, which is a projection of p + S_i·/(2α) onto it; client i
receives Σ_j W_ij θ_j and trains it on cross entropy minus λ times the cosine with it.

    θ̃_i     s.clients.theta, at.client.theta: what a client received last, the server's mixture
    W       s.server.graph [N, N]; the rows of a round's participants are new
    S_ij    similarity, s.server.similarity; above `threshold` it counts as 1
    p_j     fed.weights
    a_i     θ̃_i, or Σ_j W_ij θ_j/‖θ_j‖ (at.client.target)

Readings

* Both of the authors' implementations add +λ·cos to the loss, which pushes a model off its mixture, where the text
  says that it is drawn to it: here it is drawn, and a negative λ reproduces them. Nothing is drawn before a client
  has received a first mixture (in their implementations: in the first round).
* S compares what the models moved in the last round. The authors' code compares θ_i − θ⁰, of which every mixture makes
  more the same: on CIFAR-10 at β = 0.1 the mean similarity rises from 0.13 to 0.98 in 16 rounds, W_ii falls from 0.56
  to 0.11, and pFedGraph becomes FedAvg (benchmarks/results/similarity). "Clients predominantly maintain their own
  models", as the paper's Fig. 3d shows, holds with the last round's updates.
* a_i is θ̃_i as in their implementation `approx`; `cosine` has a_i·θ/‖θ‖ with a_i = Σ_j W_ij θ_j/‖θ_j‖, which travels
  beside the model: `pull`.
* `layers` may leave all but fully connected layers out of S, as `approx` does. Statistics of batch norm are mixed, but
  are no part of S.
* The paper trains for a fixed number of batches, a setting of the study (`local_steps`).
* Their implementations score the best of all rounds on validation images, before and after local training (a study's
  `score: validated, at: validation`); here it is the model after local training, the paper's output.
"""

import torch

from fedgrid.methods import Batch, Federation, Identity, LossContext, Method, State, Tensor, Tree, hp, inner
from fedgrid.methods.common.simplex import minimum
from fedgrid.methods.common.subspaces import cosines, gram

ALONE = {"lam": 0.0, "threshold": 1.0}


class PFedGraph(Method):
    title = "pFedGraph"
    source = "Ye et al., ICML 2023"
    family = "one mixture of models for each client"
    cite = "ye2023pfedgraph"
    score = "trained"
    work = "E"
    shares = "θ"
    matrices = ["graph", "similarity"]
    "What the server keeps of each two clients [N, N]; 0 where they have not met."
    server_rows = ("theta", "served", "target")
    identities = [
        Identity("local", ALONE | {"alpha": 1e-9}),
        Identity("fedavg", {"lam": 0.0, "alpha": 1e15}, exact=False),
        Identity("local", clients=1, settings={"lam": 0.0}),
    ]

    alpha: float = hp(0.8, above=0)
    "Weight α of the distance to the clients' shares of images (authors' code)."
    lam: float = hp(0.01)
    "Weight λ of the pull to the mixture (authors' code, with the other sign: −0.01)."
    similarity: str = hp("last_round", choices=("last_round", "since_start", "parameters"))
    "Cosines of what models moved in the last round, since θ⁰ (authors' code), or of themselves."
    layers: str = hp("all", choices=("all", "linear", "head"))
    "Parameters that the similarity compares."
    threshold: float = hp(0.9, low=-1, high=1)
    "A similarity above this counts as 1 (authors' code); 1: none does."
    pull: str = hp("mixture", choices=("mixture", "directions"))
    "What a client is drawn to: its mixture θ̃_i, or Σ_j W_ij θ_j/‖θ_j‖."

    def setup(self, fed: Federation) -> State:
        theta = fed.replicate(fed.initial())
        clients = {"theta": theta, "served": torch.zeros_like(fed.ids, dtype=torch.bool)}
        if self.pull == "directions":
            clients["target"] = fed.parameters(theta)
        graph = torch.eye(fed.size, dtype=torch.float64, device=fed.ids.device)
        return State(server=dict.fromkeys(self.matrices, torch.zeros_like(graph)) | {"graph": graph}, clients=clients)

    def loss(self, theta: Tree, batch: Batch, at: LossContext) -> Tensor:
        value = super().loss(theta, batch, at)
        if not self.lam:
            return value
        parameters, mixed = at.model.parameters(theta), self.pull == "mixture"
        target = at.model.parameters(at.client.theta if mixed else at.client.target)
        size = (inner(parameters, parameters) * (inner(target, target) if mixed else 1.0)).clamp(min=1e-24).sqrt()
        served: Tensor = at.client.served
        return value - self.lam * served.type_as(size) * inner(parameters, target) / size

    def round(self, fed: Federation, s: State) -> State:
        received = fed.send(s.clients.theta)
        if self.pull == "directions":
            fed.send(s.clients.target, s.clients.served[:, None])
        theta = fed.upload(fed.train(received, self.loss).theta)
        with fed.phase("similarity"):
            similar = self.similar(fed, received, theta)
        matrices = self.compared(fed, similar, theta)
        with fed.phase("mixture"):
            clients = {"theta": self.mixed(matrices, theta), "served": torch.ones_like(s.clients.served)}
            if self.pull == "directions":
                models = fed.parameters(theta)
                lengths = gram(models).diagonal().sqrt()
                clients["target"] = self.mixed({name: t / lengths for name, t in matrices.items()}, models)
        rows = {name: t.new_zeros(fed.size, fed.total).index_copy(1, fed.ids, t) for name, t in matrices.items()}
        server = {name: s.server[name].index_copy(0, fed.ids, t) for name, t in rows.items()}
        return s.update(server=server, clients=clients, trained=theta)

    def similar(self, fed: Federation, received: Tree, theta: Tree) -> Tensor:
        """S [n, n]; a client that has not moved is similar to nobody."""
        if self.similarity != "parameters":
            theta = theta - (fed.replicate(fed.initial()) if self.similarity == "since_start" else received)
        similarity = cosines(self.of_layers(fed, theta))
        return torch.where(similarity > self.threshold, 1.0, similarity)

    def of_layers(self, fed: Federation, theta: Tree) -> Tree:
        """The parameters that are compared."""
        linear = (k.removesuffix("weight") for k, t in fed.initial().items() if k.endswith("weight") and t.dim() == 2)
        starts = {"all": ("",), "linear": tuple(linear), "head": ("head.",)}[self.layers]
        return Tree((name, t) for name, t in fed.parameters(theta).items() if name.startswith(starts))

    def compared(self, fed: Federation, similar: Tensor, theta: Tree) -> dict[str, Tensor]:
        """The round's `matrices` [n, n], from the similarities and the trained models."""
        with fed.phase("optimisation"):
            graph = self.mixing(fed.weights, similar)
        return {"graph": graph, "similarity": similar}

    def mixing(self, shares: Tensor, similar: Tensor) -> Tensor:
        """W from p [n] and S [n, n]."""
        return minimum(self.alpha, -2 * self.alpha * shares - similar)

    def mixed(self, graphs: dict[str, Tensor], theta: Tree) -> Tree:
        """Σ_j W_ij θ_j, a stack."""
        return graphs["graph"] @ theta

    def received(self, fed: Federation, s: State) -> Tree:
        return s.clients.theta

    def cooperation(self, s: State) -> dict[str, Tensor]:
        return dict(s.server)
