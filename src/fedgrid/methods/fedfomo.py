"""FedFomo: a client tries others' models on images held out and starts from a mixture of those that help it.

Zhang, Sapra, Fidler, Yeung & Alvarez, Personalized Federated Learning with First Order Model Optimization, ICLR 2021.
Client i downloads M models θ_n, beside its own trained one, and moves from the model θ_i⁻ at which its last local
training started to θ_i⁻ + Σ_n w_n(θ_n − θ_i⁻), with w_n = max(r_n, 0)/Σ_m max(r_m, 0) and
r_n = (L_i(θ_i⁻) − L_i(θ_n))/‖θ_n − θ_i⁻‖. As these w sum to 1, that is Σ_n w_n θ_n. Then it trains and uploads.

    θ_i⁻, θ_i    s.clients.start, s.clients.theta
    θ_n          s.server.models [N, …], as uploaded last; s.server.uploaded [N]: who has uploaded
    L_i          losses
    r_n          gain
    w_n          s.server.weights [N, N], of the round in which client i last took part
    P_in         s.server.preference [N, N], the sum of all r_n so far: client i downloads from the M with the largest

Readings

* The paper's text was not at hand; this follows the authors' code but where it says otherwise. That code divides by
  the L1 norm by default; here and in PFLlib and FL-bench the norm is Euclidean. Statistics of batch norm are mixed, but
  are no part of it.
* The score is the mixture's, before it is trained, as in the authors' files; after the last round it is the one from
  which a further round would start.
* Clients try single clients' models. With the options of its README, the authors' code also offers everyone the means
  of groups of clients, and the mean of these: with `groups`, those of spectral clustering of the symmetrised softmax of
  P. All models of a group count the same, as uploaded last; in P only single clients' gains are counted.
* Where nothing helps, a client goes on from its own trained model (PFLlib). The authors' code returns to θ_i⁻, which
  loses a local training. With one client, or M = 0, this is Local.
* L_i is over the partition's `validation` images, the authors' 20 % held out. A client without any takes its training
  images, on which hardly any model beats its own, so that it stays Local; planning says so. FL-bench draws its 20 %
  anew in every round, so that clients train on them.
* Models are compared with θ_i⁻. FL-bench compares with the client's trained model, whose own gain is then 0: it is
  dropped whenever any other model helps.
* A mixture of similar clients' models is often better than each of them. Then no gain is positive, and clients train
  alone for a round; where clients are nearly IID, they stay near Local and below FedAvg.
* Anyone's last upload may be downloaded; in the authors' code only those of the last round's participants. They add
  r_n/|Σ_m r_m| to P, here r_n is added.
* Each of the M is replaced by a random one with probability ε, which falls by a fixed amount in every round. Ties are
  broken at random; PFLlib prefers low numbers and never explores.
"""

import torch

from fedgrid.methods import Federation, Identity, Method, State, Tensor, Tree, hp
from fedgrid.methods.common.groups import shares_of_groups
from fedgrid.methods.common.held_out import held_out_losses


class FedFomo(Method):
    source = "Zhang et al., ICLR 2021"
    family = "one mixture of models for each client: those that help on images held out"
    cite = "zhang2021fedfomo"
    score = "adapted"
    work = "E"
    shares = "θ, also those of other clients"
    down = "M·|θ|"
    held_out = True
    identities = [Identity("local", {"downloads": 0}), Identity("local", clients=1)]

    downloads: int = hp(5, low=0)
    "Number M of others' models that a client tries in a round (authors' code: 4 or 9; PFLlib, FL-bench: 5)."
    explore: float = hp(0.3, low=0, high=1)
    "Probability ε, in the first round, that a random model is tried in place of a preferred one (authors' code)."
    explore_decay: float = hp(0.05, low=0)
    "How much ε falls with every round, down to 0 (authors' code)."
    groups: int = hp(0, low=0)
    "Groups of clients whose means, and the mean of these, are offered to everyone (authors' code: 5); 0: none."

    def setup(self, fed: Federation) -> State:
        theta, alone = fed.replicate(fed.initial()), torch.eye(fed.size, dtype=torch.float64, device=fed.ids.device)
        uploaded, preference = torch.zeros_like(fed.ids, dtype=torch.bool), torch.zeros_like(alone)
        server = {"models": theta, "uploaded": uploaded, "preference": preference, "weights": alone}
        return State(server=server, clients={"start": theta, "theta": theta})

    def round(self, fed: Federation, s: State) -> State:
        start, w, gained = self.mixture(fed, s)
        theta = fed.upload(fed.train(start, self.loss).theta)
        server = {
            "models": s.server.models.placed(fed.ids, theta),
            "uploaded": s.server.uploaded.index_fill(0, fed.ids, True),
            "preference": s.server.preference.index_add(0, fed.ids, gained),
            "weights": s.server.weights.index_copy(0, fed.ids, w),
        }
        return s.update(server=server, clients={"start": start, "theta": theta}, trained=theta)

    def mixture(self, fed: Federation, s: State) -> tuple[Tree, Tensor, Tensor]:
        """Models [n, …] from which clients start, their shares in it and the gains of all clients' models [n, N]."""
        chosen, available = self.chosen(fed, s)
        before = self.losses(fed, s.clients.start)
        gains = [self.gain(fed, s, s.clients.theta, before)]
        for others, sent in zip(chosen.T, available.T, strict=True):
            downloaded = fed.send(s.server.models.rows(others), sent.unsqueeze(1))
            gains.append(torch.where(sent, self.gain(fed, s, downloaded, before), 0.0))
        shares = shares_of_groups(s.server.preference, s.server.uploaded, self.groups)
        means = shares @ s.server.models
        offered = (torch.full_like(fed.ids, number) for number in range(len(shares)))
        gains += [self.gain(fed, s, fed.send(means.rows(rows)), before) for rows in offered]
        r = torch.stack(gains, dim=1)
        w, nobody, singles = self.mixing(r), torch.zeros_like(s.server.weights[fed.ids]), 1 + chosen.shape[1]
        of_others = nobody.scatter(1, chosen, w[:, 1:singles]) + w[:, singles:] @ shares
        start = w[:, 0] * s.clients.theta + of_others @ s.server.models
        gained = nobody.scatter(1, chosen, r[:, 1:singles])
        return start, of_others.scatter_add(1, fed.ids.unsqueeze(1), w[:, :1]), gained

    def chosen(self, fed: Federation, s: State) -> tuple[Tensor, Tensor]:
        """Whose models each participant downloads [n, m], and which of these places are filled, bool [n, m]."""
        drawn = fed.weights.new_tensor(fed.random("downloads").random((fed.total, 3, fed.total)))
        ties, retain, replace = drawn[fed.ids].unbind(dim=1)
        itself = fed.ids.unsqueeze(1) == torch.arange(fed.total, device=fed.ids.device)
        possible = s.server.uploaded & ~itself
        number = min(self.downloads, int(possible.sum(dim=1).max()))
        preference = torch.where(possible, s.server.preference[fed.ids], -torch.inf)
        shuffled = ties.argsort(dim=1)
        ranked = shuffled.gather(1, preference.gather(1, shuffled).argsort(dim=1, descending=True, stable=True))
        preferred = torch.zeros_like(itself).scatter(1, ranked[:, :number], True)
        retained = preferred & (retain >= max(0.0, self.explore - self.explore_decay * fed.round))
        order = torch.where(possible, torch.where(retained, 1.0, replace), -1.0 - itself.double())
        chosen = order.topk(number, dim=1).indices
        return chosen, possible.gather(1, chosen)

    def losses(self, fed: Federation, theta: Tree) -> Tensor:
        """L_i of a stack [n]."""
        return held_out_losses(fed, theta)

    def gain(self, fed: Federation, s: State, theta: Tree, before: Tensor) -> Tensor:
        """Gains r [n] of a stack, from the losses at θ⁻; 0 for a model that is θ⁻ itself."""
        moved = fed.parameters(theta - s.clients.start)
        distance = torch.stack([t.flatten(1).double().square().sum(dim=1) for t in moved.values()]).sum(dim=0).sqrt()
        return torch.where(distance > 0, (before - self.losses(fed, theta)) / torch.where(distance > 0, distance, 1), 0)

    def mixing(self, r: Tensor) -> Tensor:
        """Weights w [n, 1 + m] from gains, one's own trained model first; it alone where no model helps."""
        helpful, itself = r.clamp(min=0), torch.arange(r.shape[1], device=r.device) == 0
        total = helpful.sum(dim=1, keepdim=True)
        return torch.where(total > 0, helpful / torch.where(total > 0, total, 1), itself.double())

    def received(self, fed: Federation, s: State) -> Tree:
        return s.clients.theta

    def adapted(self, fed: Federation, s: State) -> Tree:
        return self.mixture(fed, s)[0]

    def cooperation(self, s: State) -> dict[str, Tensor]:
        return {"weights": s.server.weights}
