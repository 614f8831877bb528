"""FedCP: a gate splits each image's features between the client's own head and the server's, whose logits are added.

Zhang, Hua, Wang, Song, Xue, Ma & Guan, FedCP: Separating Feature Information for Personalized Federated Learning via
Conditional Policy, KDD 2023. Of features z [k], the client's head sees r⊙z and the server's, frozen, (1 − r)⊙z:

    (a, b) = ReLU(LayerNorm(Linear(z⊙v/‖v‖))) ∈ R^{2×k},  r = softmax(a + G_a, b + G_b)_1 with Gumbel noise G,
    L = CE(π_i(r⊙z) + π((1 − r)⊙z), y) + λ·MMD²(z, z′),

where v is the sum over classes of the rows of π_i's weight and z′ are the features of the received extractor, both
constant in a round. MMD² is the mean over the B×B pairs of K(z, z) + K(z′, z′) − 2K(z, z′), with
K = Σ_s exp(−d²/(2s)), s ∈ {10, 15, 20, 50}. A client uploads extractor, gate and (π_i + π)/2, which are averaged.

    φ, π, gate    s.server.theta: `extractor.…`, `head.…` and `gate.…`
    π_i           s.clients.head, `head.…` in training; never sent as it is
    r             personal_share

Readings

* The paper's text was not at hand; this follows the authors' code and PFLlib except where it says otherwise. v is that
  of PFLlib and of the authors' last version. Earlier versions sum the absolute differences between the client's last
  upload and the new π instead, and some of these upload heads whose weights are mixed by their mean shares.
* λ = 5 belongs to the authors' rate: at ten times that rate it draws each step ten times as far, so the default is a
  product λ·η. It is a tenth of theirs, with which the method is not behind FedPer in short runs either.
* The steps of cross entropy do not change the sum of a linear layer's rows. With SGD v therefore keeps the direction
  that it has in θ⁰, the same for all clients: it does not tell clients apart. Other optimisers move it.
* G_a − G_b is one logistic number, drawn as such. There is no noise in prediction; in the implementations there is,
  so that their scores are random.
* The gate starts as torch's layers do. v starts as that of θ⁰, in the implementations as random numbers for each
  client. In prediction v is that of the model's head.
* Every participant starts from the server's π and gate. In both implementations a client that did not take part
  in the last round starts from those of the last one in which it did.
* z′ comes in evaluation mode, with the batch norm of the received extractor.
* Adversarial training moves images against π_i(z), without gate and π; attacks in evaluation see both.
"""

import torch
from torch.nn.functional import layer_norm, linear, normalize

from fedgrid.methods import Batch, Federation, LossContext, Method, State, Tensor, Tree, cross_entropy, hp

SCALES = (10.0, 15.0, 20.0, 50.0)
PULL = 0.0025
"λ·η, what a step is drawn by (authors: 0.025)."


class FedCP(Method):
    source = "Zhang et al., KDD 2023"
    family = "split model: shared extractor, gate and second head, own heads"
    cite = "zhang2023fedcp"
    score = "received"
    work = "E"
    averages_uploads = True
    shares = "θ, a gate"
    down = up = "|θ| + 2·k·k + 6·k"

    lam: float | None = hp(None, low=0)
    """Weight λ of the distance to the received extractor's features; none: 0.0025/η with the study's rate η, which is
    0.5 at 0.005 (authors there, for a CNN: 5; PFLlib's default is 1)."""

    def setup(self, fed: Federation) -> State:
        theta, like, k = fed.initial(), fed.initial()["head.weight"], fed.model.width
        for kind, shape in (("weight", (2 * k, k)), ("bias", (2 * k,))):
            unit = 2 * fed.random(f"gate {kind}").random(shape, dtype="float32") - 1
            theta[f"gate.{kind}"] = like.new_tensor(unit / k**0.5)
        theta |= Tree({"gate.scale": like.new_ones(2 * k), "gate.shift": like.new_zeros(2 * k)})
        return State(server={"theta": theta}, clients={"head": fed.replicate(theta.part("head"))})

    def logits(self, theta: Tree, z: Tensor, r: Tensor, at: LossContext) -> Tensor:
        """π_i(r⊙z) + π((1 − r)⊙z) of features z [B, k] and shares r [B, k]."""
        return at.model.head(theta, r * z) + at.model.head(at.server.theta, (1 - r) * z)

    def loss(self, theta: Tree, batch: Batch, at: LossContext) -> Tensor:
        z = at.model.features(theta, batch.x)
        noise = torch.logit(at.uniform("gate", like=z))
        r = personal_share(theta, z, at.client.head["head.weight"], noise)
        entropy = cross_entropy(self.logits(theta, z, r, at), batch.y)
        if self.lam == 0:
            return entropy
        distance = mmd(z, at.model.evaluating().features(at.server.theta, batch.x))
        lam: float = at.server.lam if self.lam is None else self.lam
        return entropy + lam * distance

    def predict(self, theta: Tree, x: Tensor, at: LossContext) -> Tensor:
        z = at.model.features(theta, x)
        return self.logits(theta, z, personal_share(theta, z, theta["head.weight"]), at)

    def round(self, fed: Federation, s: State) -> State:
        start, rule = fed.broadcast(s.server.theta) | s.clients.head, {"lam": PULL / fed.training.lr}
        theta = fed.train(start, self.loss, server=rule).theta
        head = theta.part("head")
        average = fed.average(fed.upload(theta | (head + fed.replicate(s.server.theta.part("head"))) / 2))
        return s.update(server={"theta": average}, clients={"head": head}, trained=theta)

    def received(self, fed: Federation, s: State) -> Tree:
        head: Tree = s.clients.head
        return fed.replicate(s.server.theta) | head


def personal_share(theta: Tree, z: Tensor, weight: Tensor, noise: Tensor | float = 0.0) -> Tensor:
    """Shares r [B, k] of features z [B, k], for a private head's weight [C, k]; `noise` is G_a − G_b."""
    of_gate = linear(z * normalize(weight.sum(dim=0), dim=0), theta["gate.weight"], theta["gate.bias"])
    a, b = layer_norm(of_gate, of_gate.shape[1:], theta["gate.scale"], theta["gate.shift"]).relu().chunk(2, dim=1)
    return (a - b + noise).sigmoid()


def mmd(z: Tensor, other: Tensor) -> Tensor:
    """MMD² of two sets of vectors [B, k]."""
    both = torch.cat([z, other])
    both = both - both.mean(dim=0)  # so that norms are of the size of distances
    norms = both.square().sum(dim=1)
    squared = (norms.unsqueeze(1) + norms - 2 * both @ both.T).clamp(min=0)
    kernel = torch.stack([torch.exp(-squared / (2 * scale)) for scale in SCALES]).sum(dim=0)
    sign = torch.cat([torch.ones_like(z[:, 0]), -torch.ones_like(z[:, 0])])
    return sign @ kernel @ sign / len(z) ** 2
