"""GPFL: a shared valve turns features into generic ones, guided by class embeddings, and personal ones, for own heads.

Zhang, Hua, Wang, Song, Xue, Ma, Cao & Guan, GPFL: Simultaneously Learning Global and Personalized Feature Information
for Personalized Federated Learning, ICCV 2023. The valve scales and shifts features z under a condition u:
V(z, u) = ReLU((1 + γ(u))⊙z + β(u)), where γ and β are each LayerNorm(ReLU(Linear(u))), from k numbers to k. Conditions
are g = mean_c e_c and p_i = Σ_c (n_{i,c}/n_i)·e_c. A client descends

    CE(π_i(V(z, p_i)), y) + CE((cos(V(z, g), e_c))_c, y) + λ·‖V(z, g) − e_y‖ + (μ/2)·(‖e‖² + ‖V‖²),

with g, p_i and the e_y of the third term as received. It predicts with π_i(V(z, p_i)). The server averages all but π_i.

    φ, e, V    s.server.theta: `extractor.…`, `guide.embeddings` [C, k], `guide.gamma.…` and `guide.beta.…`
    π_i        s.clients.head
    p_i        at.client.condition [k] in a loss, theta.condition in prediction

Readings

* The paper's text was not at hand; this follows the authors' code except where it says otherwise.
* Conditions come from the embeddings of the server, as in FL4Health. The authors' code and PFLlib take those that the
  client held before these arrived: its own trained ones if it took part in the last round; zeros in the first round.
  FL4Health divides p_i by C, too.
* ‖V(z, g) − e_y‖ is the mean over a batch of B images. All three implementations take the norm of the whole matrix,
  which is about √B times as large: to match their weight, multiply λ by √B (the authors' B is 10).
* μ is a weight decay of e and V in the implementations, here a term of the loss: the same for SGD, not for Adam. The
  study's own weight decay comes on top.
* Embeddings start from N(0, 1) and the valve as torch's layers do, all drawn by the server.
* A client without images has p_i = 0.
* Adversarial training moves images against π_i(z), without the valve; attacks in evaluation see it.
"""

import torch
from torch.nn.functional import layer_norm, normalize

from fedgrid.methods import Batch, Federation, LossContext, Method, State, Tensor, Tree, cross_entropy, hp, inner

EMBEDDINGS = "guide.embeddings"


class GPFL(Method):
    source = "Zhang et al., ICCV 2023"
    family = "split model: shared extractor, valve and class embeddings, own heads"
    cite = "zhang2023gpfl"
    score = "received"
    work = "E"
    averages_uploads = True
    shares = "φ, class embeddings, a valve"
    down = up = "|φ| + C·k + 2·k·k + 6·k"
    carries = "means of class embeddings, weighted by a client's share of each class"

    lam: float = hp(0.01, low=0)
    "Weight λ of the distance to embeddings (authors: 0.01 for CNNs, 0.0001 for ResNet-18; PFLlib's default is 1)."
    mu: float = hp(1.0, low=0)
    "Weight decay μ of embeddings and valve (authors: 0.1 for CNNs, 1 for HAR-CNN, 0 for ResNet-18; PFLlib: 0)."

    def setup(self, fed: Federation) -> State:
        theta = fed.initial()
        server = {"theta": theta.part("extractor") | self.guide(fed)}
        return State(server, clients={"head": fed.replicate(theta.part("head"))})

    def guide(self, fed: Federation) -> Tree:
        """Embeddings and valve at their start."""
        like, k = fed.initial()["head.weight"], fed.model.width
        guide = Tree({EMBEDDINGS: like.new_tensor(fed.random(EMBEDDINGS).standard_normal(like.shape, dtype="float32"))})
        for name in ("guide.gamma", "guide.beta"):
            for kind, shape in (("weight", (k, k)), ("bias", (k,))):
                unit = 2 * fed.random(f"{name}.{kind}").random(shape, dtype="float32") - 1
                guide[f"{name}.{kind}"] = like.new_tensor(unit / k**0.5)
            guide |= Tree({f"{name}.scale": like.new_ones(k), f"{name}.shift": like.new_zeros(k)})
        return guide

    def conditions(self, fed: Federation, s: State) -> Tree:
        """p_i [n, k], as the entry `condition` of a stack."""
        embeddings: Tensor = s.server.theta[EMBEDDINGS]
        shares = fed.counts / fed.counts.sum(dim=1, keepdim=True).clamp(min=1)
        return Tree(condition=shares.type_as(embeddings) @ embeddings)

    def loss(self, theta: Tree, batch: Batch, at: LossContext) -> Tensor:
        z, frozen = at.model.features(theta, batch.x), at.server.theta[EMBEDDINGS]
        generic = valve(theta, z, frozen.mean(dim=0))
        cosines = normalize(generic) @ normalize(theta[EMBEDDINGS]).T
        logits = at.model.head(theta, valve(theta, z, at.client.condition))
        distance: Tensor = torch.linalg.vector_norm(generic - frozen[batch.y], dim=1).mean()
        guidance = cross_entropy(cosines, batch.y) + self.lam * distance
        return cross_entropy(logits, batch.y) + guidance + self.mu / 2 * inner(theta, theta.part("guide"))

    def predict(self, theta: Tree, x: Tensor, at: LossContext) -> Tensor:
        return at.model.head(theta, valve(theta, at.model.features(theta, x), theta["condition"]))

    def round(self, fed: Federation, s: State) -> State:
        conditions = self.conditions(fed, s)
        theta = fed.train(fed.broadcast(s.server.theta) | s.clients.head, self.loss, clients=conditions).theta
        average = fed.average(fed.upload(Tree((name, theta[name]) for name in s.server.theta)))
        return s.update(server={"theta": average}, clients={"head": theta.part("head")}, trained=theta | conditions)

    def received(self, fed: Federation, s: State) -> Tree:
        theta: Tree = s.clients.head | self.conditions(fed, s)
        return fed.replicate(s.server.theta) | theta


def valve(theta: Tree, z: Tensor, condition: Tensor) -> Tensor:
    """V(z, u) of features z [B, k] under a condition u [k]."""
    gamma, beta = (modulation(theta, f"guide.{name}", condition) for name in ("gamma", "beta"))
    return ((1 + gamma) * z + beta).relu()


def modulation(theta: Tree, name: str, condition: Tensor) -> Tensor:
    """LayerNorm(ReLU(Linear(u))) [k] of a condition u [k]."""
    weight, bias, scale, shift = (theta[f"{name}.{kind}"] for kind in ("weight", "bias", "scale", "shift"))
    return layer_norm((weight @ condition + bias).relu(), bias.shape, scale, shift)
