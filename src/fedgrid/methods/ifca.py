"""IFCA: the server keeps several models; each client trains the one that fits its images best.

Ghosh, Chung, Yin & Ramchandran, An Efficient Framework for Clustered Federated Learning, NeurIPS 2020, Algorithm 1 with
option II (model averaging): k_i = argmin_k F_i(w_k), client i trains w_{k_i}, and w_k becomes the mean of the models of
those who chose it. A model that nobody chose stays.

    w_k    s.server.models [K, …]
    k_i    choice; s.server.cluster [N], of the last round in which client i took part, 0 before

Readings

* Written from memory of the paper and checked against the authors' code.
* F_i is the mean cross entropy of all training images, in evaluation mode; the smaller k wins among equals. A client
  chooses again whenever it is scored, among the models that it would receive. The authors' code lets clients of the
  test set choose by the loss of their test images.
* Members are weighted by their number of images, in the authors' code equally.
* Starts are drawn independently, the first one being θ⁰, so that one model is FedAvg. Often all clients choose the same
  start, and the other models are never trained. The authors' code draws again until every start has enough clients,
  which needs the losses of all clients before the first round and is left out.
* The paper's option of sharing the lower layers is left out, too.
"""

from collections.abc import Sequence

import torch
from torch.nn.functional import cross_entropy, one_hot

from fedgrid.methods import Batch, Federation, Identity, LossContext, Method, State, Tensor, Tree, counts_filled, hp


class IFCA(Method):
    source = "Ghosh et al., NeurIPS 2020"
    family = "one model for each cluster of clients"
    cite = "ghosh2020ifca"
    score = "received"
    work = "E"
    shares = "all clusters' θ"
    down = "models·|θ|"
    up = "|θ| + 1"
    identities = [Identity("fedavg", {"models": 1}), Identity("local", {"models": 1}, clients=1)]

    models: int = hp(3, low=1)
    "Number K of models (paper: the true number of clusters, 2 or 4); 1 is FedAvg."

    def setup(self, fed: Federation) -> State:
        theta = fed.initial()
        seeds = fed.random("starts").integers(1 << 62, size=self.models - 1).tolist()
        others = [fed.model.initial(seed) for seed in seeds]
        starts = [theta, *(Tree((name, t.type_as(theta[name])) for name, t in other.items()) for other in others)]
        return State(server={"models": stacked(starts), "cluster": torch.zeros_like(fed.ids)})

    @counts_filled
    def losses(self, theta: Tree, batch: Batch, at: LossContext) -> dict[str, Tensor]:
        """Summed cross entropy [K] of a batch under each of the server's models."""
        logits = [at.model(single(at.server.models, k), batch.x) for k in range(self.models)]
        values = [batch.only_counted(cross_entropy(z.double(), batch.y, reduction="none")) for z in logits]
        return {"losses": torch.stack([value.sum() for value in values])}

    def choice(self, fed: Federation, models: Tree) -> Tensor:
        """k_i [n]."""
        losses: Tensor = fed.measure(Tree(), self.losses, server={"models": models}).losses
        return losses.argmin(dim=1)

    def averaged(self, fed: Federation, choice: Tensor, theta: Tree, models: Tree) -> Tree:
        """The models [K, …] after a round in which clients with these choices trained `theta`."""
        images = one_hot(choice, self.models).T * fed.counts.sum(dim=1)
        means = (fed.average(theta, members / members.sum()) if members.any() else None for members in images)
        return stacked([single(models, k) if mean is None else mean for k, mean in enumerate(means)])

    def round(self, fed: Federation, s: State) -> State:
        fed.broadcast(s.server.models)
        choice = self.choice(fed, s.server.models)
        theta = fed.train(single(s.server.models, choice), self.loss).theta
        fed.upload(choice.int())
        models = self.averaged(fed, choice, fed.upload(theta), s.server.models)
        cluster = s.server.cluster.index_copy(0, fed.ids, choice)
        return s.update(server={"models": models, "cluster": cluster}, trained=theta)

    def received(self, fed: Federation, s: State) -> Tree:
        return single(s.server.models, self.choice(fed, s.server.models))

    def clusters(self, s: State) -> dict[str, Tensor]:
        return {"client": torch.arange(len(s.server.cluster)), "cluster": s.server.cluster}


def single(models: Tree, k: int | Tensor) -> Tree:
    """One of the models [K, …] or, for numbers [n], a stack with one for each client."""
    return models.map(lambda t: t[k])


def stacked(models: Sequence[Tree]) -> Tree:
    """Models as one tree [K, …]."""
    return Tree((name, torch.stack([model[name] for model in models])) for name in models[0])
