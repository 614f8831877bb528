"""FedCAC: parameters that matter to a client are averaged with clients to whom the same ones matter, others with all.

Wu, Liu, Niu, Zhu & Tang, Bold but Cautious: Unlocking the Potential of Personalized Federated Learning through
Cautiously Aggressive Collaboration, ICCV 2023. Of every tensor with d entries, M_i marks the ⌊τ·d⌋ largest of
|(θ_i − θ_i^start) ⊙ θ_i|. With O_ij = 1 − ‖M_i − M_j‖₁/(2‖M_i‖₁), client i collaborates in round t with all j for which
O_ij ≥ mean O + ((t + 1)/β)·(max O − mean O), over the pairs i ≠ j. It goes on from M_i ⊙ c_i + (1 − M_i) ⊙ w, where c_i
is the plain mean of its collaborators' models and its own, and w the average of all.

    w      s.server.theta
    c_i    s.clients.mixture, of the last round in which client i took part
    M_i    s.clients.important, bool; nothing is marked before

Readings

* The paper's text was not at hand; the equations are those of the authors' code (Fling).
* Clients are those of the round: pairs are of participants. An idle client keeps c_i and M_i and receives the new w, as
  in PFLlib, which however applies the masks of its first round to models of θ⁰.
* The server knows where a client started and what came back, so it forms M_i itself and sends one model.
* An entry that has not moved, but for rounding, or is 0, is never marked; equal entries are marked together. Biases
  before batch norm, for one, have no gradient but rounding. At rates near 10⁻⁴, float32 takes a few real movements for
  rounding, too. Where the τ·d-th largest value is below 10⁻¹⁰, that code marks all entries that have moved, and a whole
  tensor in which none has. A client without marks overlaps with nobody.
* t counts rounds of the study. After β of them nobody reaches the threshold, and important parameters are a client's
  own, unless all overlaps are equal, as with two clients of equally many marks.
* Statistics of batch norm stay with the client, as in the authors' code and PFLlib; w has their mean.
"""

from math import floor

import torch

from fedgrid.methods import Federation, Identity, State, Tensor, Tree, hp
from fedgrid.methods.common.subspaces import gram
from fedgrid.methods.fedavg import FedAvg

ROUNDING = 1e-12
"In round β the threshold is the largest overlap itself."
UNITS = 16
"Machine epsilons of a tensor's largest entry by which its entries may move without having been trained."


class FedCAC(FedAvg):
    source = "Wu et al., ICCV 2023"
    family = "one mixture of models for each client: of its important parameters alone"
    cite = "wu2023fedcac"
    averages_uploads = False  # mixtures are made without fed.average
    score = "received"
    server_rows = ("mixture", "important")
    identities = [Identity("fedavg", {"tau": 0.0}), Identity("local", clients=1)]

    tau: float = hp(0.1, low=0, high=1)
    """Share τ of a tensor's entries that are important (authors' code, for runs longer than β: CIFAR-10 0.5, CIFAR-100
    0.4)."""
    beta: int = hp(100, low=1)
    "Rounds β until important parameters are shared with nobody (authors' code: CIFAR-10 100, CIFAR-100 170)."

    def setup(self, fed: Federation) -> State:
        s = super().setup(fed)
        mixture = fed.parameters(s.server.theta)
        important = mixture.map(lambda t: torch.zeros_like(t, dtype=torch.bool))
        clients = {"mixture": fed.replicate(mixture), "important": fed.replicate(important)}
        return s.update(clients=clients | self.statistics(fed, fed.replicate(s.server.theta)))

    def statistics(self, fed: Federation, theta: Tree) -> dict[str, Tree]:
        """The entry of a client's state with its statistics of batch norm, where there are any."""
        parameters = fed.parameters(theta)
        own = Tree((name, t) for name, t in theta.items() if name not in parameters)
        return {"statistics": own} if own else {}

    def round(self, fed: Federation, s: State) -> State:
        start = fed.send(self.received(fed, s))
        theta = fed.upload(fed.train(start, self.loss).theta)
        important = self.important(fed, start, theta)
        together = self.collaborators(self.overlaps(important), fed.round).double()
        mixture = (together / together.sum(dim=1, keepdim=True)) @ fed.parameters(theta)
        clients = {"mixture": mixture, "important": important} | self.statistics(fed, theta)
        return s.update(server={"theta": fed.average(theta)}, clients=clients, trained=theta)

    def important(self, fed: Federation, start: Tree, theta: Tree) -> Tree:
        """M of stacks, before local training and after it; bool."""
        moved = fed.parameters(theta - start)
        return Tree((name, self.marked(theta[name], t)) for name, t in moved.items())

    def marked(self, theta: Tensor, moved: Tensor) -> Tensor:
        """M of one tensor of a stack, from what it is and by how much it `moved`; bool [n, …]."""
        sizes, steps = theta.abs().flatten(1), moved.abs().flatten(1)
        number = floor(self.tau * sizes.shape[1] + 1e-9)
        if not number:
            return torch.zeros_like(theta, dtype=torch.bool)
        noise = UNITS * torch.finfo(theta.dtype).eps * sizes.amax(dim=1, keepdim=True)
        sensitivity = torch.where(steps > noise, steps * sizes, 0)
        smallest = sensitivity.topk(number, dim=1).values[:, -1:]
        return ((sensitivity >= smallest) & (sensitivity > 0)).view_as(theta)

    def overlaps(self, important: Tree) -> Tensor:
        """O [n, n], float64; ‖M_i − M_j‖₁ is the sum of both sizes less twice the marks in common."""
        common = gram(important)
        sizes = common.diagonal().unsqueeze(1)
        return (sizes - sizes.T + 2 * common) / (2 * sizes).clamp(min=1) * (sizes > 0)

    def collaborators(self, overlaps: Tensor, number: int) -> Tensor:
        """Who collaborates with whom in round t = `number`, bool [n, n]; everyone with itself."""
        itself = torch.eye(len(overlaps), dtype=torch.bool, device=overlaps.device)
        pairs = overlaps[~itself]
        if not len(pairs):
            return itself
        threshold = pairs.mean() + (number + 1) / self.beta * (pairs.max() - pairs.mean())
        return (overlaps >= threshold - ROUNDING) | itself

    def received(self, fed: Federation, s: State) -> Tree:
        w: Tree = fed.replicate(s.server.theta) | s.clients.get("statistics", {})
        mixture = s.clients.mixture
        return w | {name: torch.where(mask, mixture[name], w[name]) for name, mask in s.clients.important.items()}
