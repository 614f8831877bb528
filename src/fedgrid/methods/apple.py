"""APPLE: every client downloads all core models and learns the weights with which it mixes them into its own model.

Luo & Wu, Adapt to Adaptation: Learning Personalization for Cross-Silo Federated Learning, IJCAI 2022. Client i uses
θ_i = Σ_j p_ij c_j, with core models c_j and directed relationships p_ij of any sign. On every batch, its own core model
and its relationships take a step from their values before the batch, down L_i(θ_i) + λ(t)·μ·Σ_j (p_ij − p⁰_j)²:

    c_i ← c_i − η·p_ii·∇L_i(θ_i)
    p_ij ← p_ij − η_p·(⟨∇L_i(θ_i), c_j⟩ + 2λ(t)·μ·(p_ij − p⁰_j)),  p⁰_j = n_j/Σ_l n_l

both with momentum. After local training c_i is uploaded. λ falls over the first L = ⌊share·T⌋ rounds, as 0.001^{t/L}
or (1 + cos(πt/L))/2, and is 0 from then on.

    c_j     s.server.cores [N, …], as uploaded last; s.clients.core is client i's own
    p_ij    s.clients.relations [n, N], never sent
    p⁰_j    s.server.prior [N]
    θ_i     models.theta in training
    η_p     relation_lr

Readings

* Equations and values are those of the authors' code; the paper's text was not at hand. In that code the
  regulariser's gradient has the factor 2; in PFLlib it has none.
* Steps are SGD whatever the study's optimiser, with the authors' momentum of 0.9, which starts at 0 in every round. η_p
  is constant. The authors' code can lower η and η_p alike from round to round; by default it does not.
* All cores start from θ⁰, as in PFLlib, so a client's relationships to the others move alike in the first round. The
  authors draw each core apart, which makes the first mixture of N clients' cores about √N times smaller.
* With p_ij = 1/N and equal momentum, a round moves θ_i about N times less than FedAvg's w at the same rate: raise `lr`
  for many clients. PFLlib multiplies it by N. By default it leaves p_ij at 1/N; its gradients of p are means over
  entries in place of sums, and it replaces each c_i by θ_i after local training, which is another method.
* Clients download the M = N − 1 cores of the others, so this is for few clients. The authors' option of downloading
  some of them, chosen by |p|, is left out.
* A core that was never uploaded is θ⁰. Clients without images and new clients have p⁰_j = 0, and every p_ij for them
  stays 0, their own too: their models are mixtures of the others' cores alone.
* `received` mixes the new cores with the client's weights, and so does a client that sits out a round. Statistics of
  batch norm are not mixed, since weights may be negative: clients keep those of the θ_i that they trained last, and
  send none.
"""

from math import cos, floor, pi

import torch

from fedgrid.methods import Batch, Federation, Identity, LossContext, Method, State, Tensor, Tree, hp, inner

SMALLEST = 0.001
"λ at the end of the exponential schedule (authors' code)."


class APPLE(Method):
    title = "APPLE"
    source = "Luo & Wu, IJCAI 2022"
    family = "one mixture of models for each client: with weights that it learns"
    cite = "luo2022apple"
    score = "trained"
    work = "E"
    shares = "θ of all clients"
    down = "M·|θ|"
    plain_rates = ("lr",)
    identities = [
        Identity("local", {"relation_lr": 0.0, "momentum": 0.0}, clients=1, exact=False),
        Identity("local", {"relation_lr": 0.0}, clients=1, training={"momentum": 0.9, "lr": 0.01}, exact=False),
    ]

    lr: float | None = hp(None, above=0)
    "Learning rate η of the core models; none means the study's (authors' code: 0.01; PFLlib: N times the study's)."
    relation_lr: float = hp(0.001, low=0)
    "Learning rate η_p of the relationships (authors' code; PFLlib: 0, which fixes them)."
    momentum: float = hp(0.9, low=0, high=1)
    "Momentum of both (authors' code; PFLlib has none)."
    mu: float = hp(0.1, low=0)
    "Weight μ of the pull of p towards p⁰ (authors' code; PFLlib: 0)."
    share: float = hp(0.1, low=0, high=1)
    "Share of the rounds after which λ is 0 (authors' code; PFLlib: 1)."
    schedule: str = hp("exponential", choices=("exponential", "cosine"))
    "How λ falls (authors' code: exponential; PFLlib: cosine)."

    def setup(self, fed: Federation) -> State:
        theta, members = fed.initial(), fed.ids.new_tensor(fed.simulation.members)
        core, statistics = fed.parameters(theta), Tree((name, theta[name]) for name in fed.model.statistics)
        images = torch.zeros_like(fed.weights).index_add(0, members, fed.counts.sum(dim=1)[members])
        prior = (images / images.sum()).type_as(theta["head.weight"])
        clients = {"core": core, "relations": prior, "statistics": statistics}
        return State({"cores": fed.replicate(core), "prior": prior}, fed.replicate(Tree(clients)))

    def step(self, models: Tree, batch: Batch, at: LossContext) -> tuple[dict[str, Tree], Tensor]:
        p, core, itself, prior = models.relations, models.core, at.client.itself, at.server.prior
        slope, value = torch.func.grad_and_value(self.loss)(models.theta, batch, at)
        others = torch.stack([torch.tensordot(t, slope[name], t.dim() - 1) for name, t in at.server.cores.items()])
        towards = torch.where(itself, inner(slope, core), others.sum(dim=0))
        slopes = {
            "core": (p * itself).sum() * Tree((name, slope[name]) for name in core),
            "relations": torch.where(prior > 0, towards + at.server.pull * (p - prior), 0),
        }
        speed = self.momentum * models.speed + slopes
        core, p = core - at.server.lr * speed.core, p - self.relation_lr * speed.relations
        mixed = mixture(p.unsqueeze(0), itself.unsqueeze(0), core.map(lambda t: t.unsqueeze(0)), at.server.cores)
        theta = models.theta | mixed.map(lambda t: t.squeeze(0))
        return {"theta": theta, "core": core, "relations": p, "speed": speed}, value

    def pull(self, fed: Federation) -> float:
        """2λ(t)·μ."""
        last = floor(self.share * fed.training.rounds + 1e-9) if self.mu else 0
        if fed.round >= last:
            return 0.0
        done = fed.round / last
        return 2 * self.mu * (SMALLEST**done if self.schedule == "exponential" else (1 + cos(pi * done)) / 2)

    def round(self, fed: Federation, s: State) -> State:
        itself = positions(fed)
        fed.send(fed.replicate(s.server.cores), ~itself)
        own = Tree(core=s.clients.core, relations=s.clients.relations)
        start = own | {"theta": self.received(fed, s), "speed": own.map(torch.zeros_like)}
        server = {"lr": self.lr or fed.optimizer.lr, "pull": self.pull(fed)}
        end = fed.iterate(start, self.step, server=server, clients={"itself": itself}).theta
        cores = s.server.cores.placed(fed.ids, fed.upload(end.core))
        statistics = {name: end.theta[name] for name in s.clients.statistics}
        clients = {"core": end.core, "relations": end.relations, "statistics": statistics}
        return s.update(server={"cores": cores}, clients=clients, trained=end.theta)

    def received(self, fed: Federation, s: State) -> Tree:
        mixed = mixture(s.clients.relations, positions(fed), s.clients.core, s.server.cores) | s.clients.statistics
        return Tree((name, mixed[name]) for name in fed.initial())


def positions(fed: Federation) -> Tensor:
    """The position of each client in a row [N], as bool [n, N]."""
    return fed.ids.unsqueeze(1) == torch.arange(fed.total, device=fed.ids.device)


def mixture(p: Tensor, itself: Tensor, core: Tree, cores: Tree) -> Tree:
    """Σ_j p_ij c_j as a stack, from p [n, N], the clients' own c_i [n, …] and all c_j [N, …] as uploaded last."""
    return (p * itself).sum(dim=1) * core + (p * ~itself) @ cores
