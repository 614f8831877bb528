"""pFedHN: a hypernetwork on the server generates every client's model from a learned embedding of the client.

Shamsian, Navon, Fetaya & Chechik, Personalized Federated Learning using Hypernetworks, ICML 2021, Algorithm 1. Client i
trains θ_i = h(v_i; Φ) to θ̃_i; with Δ_i = θ_i − θ̃_i the server descends along (∂h/∂(Φ, v_i))ᵀ Δ_i, by SGD with
momentum.

    Φ, v_i    s.server.phi: `embedding` [N, d_e], an MLP (`hidden.…`), a linear map for every tensor of θ (`out.….`)
              and the optimiser's momentum, s.server.speed, kept over rounds
    Δ_i       delta, a constant
    π_i       s.clients.head, where a client keeps its head (pFedHN-PC: `own_head`)

Readings

* As in Algorithm 1, clients are visited one after the other: each trains the model of the Φ that the step for the one
  before has left. The authors draw a client at random for every step; here each participant has one visit a round, in
  random order. 20 clients with a fifth of MNIST and one epoch a round so reach 90, 96 and 96 % after 4, 8 and 12
  rounds, and 24, 49 and 63 % where all train models of the same Φ (benchmarks/results/hypernetwork).
* What that costs: clients in turn share no calls. A round of 20 takes the executor *loop* about a fifth longer than
  with all at once, with the same 42,000 launches, and *stacked* two to three times as long, with 66,000 in place of
  9,000. Choose `executor: loop` for it; no GPU was measured.
* With `clients_at_once`, m clients train models of the same Φ. The server then takes a step for each, in random order,
  with the client's Δ_i and the Jacobian at the Φ of that moment (`server_step` sequential), or one with the mean
  gradient. Each of m steps is by 1/m of the rate, since the Δ_i know nothing of each other and momentum adds them up;
  without momentum these are too small: raise `server_lr`.
* A client whose upload is lost trains the model of the Φ before the round, and nobody's model comes from its step.
* pFedGraph's code, FedSaC's baseline, trains one client a round, as does `training: {participation: …}` of the method
  in a study.
* Clients train with the study's optimiser (authors: rate 0.005, momentum 0.9, weight decay 5·10⁻⁵, gradients clipped
  at 50, for 50 batches), heads of `own_head` too, where the authors' clients
  keep one for these; and for a number of batches as in the paper, not for the study's epochs.
* The bound `clip` is on the gradient of all of Φ, before decay; embeddings of other clients decay and coast on.
* Layers start as torch's do, embeddings from N(0, 1), so that generated weights have another scale than θ⁰, as in the
  authors' code. Statistics of batch norm cannot be generated and are averaged.
"""

import torch

from fedgrid.engine.federation.failures import lost_uploads
from fedgrid.engine.local.executor import joined
from fedgrid.methods import Federation, Method, State, Tensor, Tree, hp, leaves
from fedgrid.methods.common.orders import orders


class PFedHN(Method):
    title = "pFedHN"
    source = "Shamsian et al., ICML 2021"
    family = "models from a hypernetwork on the server"
    cite = "shamsian2021pfedhn"
    score = "received"
    shares = "θ"
    work = "local_steps batches"

    embedding: int | None = hp(None, low=1)
    "Width d_e of an embedding; none: 1 + ⌊N/4⌋ (authors' code; pFedGraph's: 20)."
    hidden: int = hp(100, low=1)
    "Width of the hypernetwork (authors' code)."
    depth: int = hp(3, low=0)
    "Layers behind its first one (authors' code)."
    clients_at_once: int | None = hp(1, low=1)
    "Clients that train models of the same Φ before the server's steps: 1 (Algorithm 1; authors' code); none: all."
    server_lr: float = hp(0.01, low=0)
    "Step size of the hypernetwork, which the steps for clients at once share (authors' code)."
    embedding_lr: float | None = hp(None, low=0)
    "Step size of the embeddings; none: the same."
    momentum: float = hp(0.9, low=0, high=1)
    "Momentum of the hypernetwork (authors' code)."
    decay: float = hp(1e-3, low=0)
    "Weight decay of the hypernetwork (authors' code)."
    clip: float = hp(50.0, above=0)
    "Largest norm of its gradient (authors' code)."
    server_step: str = hp("sequential", choices=("sequential", "mean"))
    "For clients at once: a step for each of them, one after the other, or one with the mean of their gradients."
    own_head: bool = hp(False)
    "On: pFedHN-PC, only extractors are generated and clients keep their heads."
    local_steps: int | None = hp(50, low=0)
    "Batches K that a client trains on (authors' code; pFedGraph's: 400); none: as much as the study says."

    def made(self, fed: Federation) -> Tree:
        """θ⁰'s tensors that the hypernetwork generates: what is trained and shared."""
        return fed.parameters(fed.initial().part("extractor") if self.own_head else fed.initial())

    def setup(self, fed: Federation) -> State:
        theta, inputs = fed.initial(), self.embedding or 1 + fed.size // 4
        widths = [(f"hidden.{i}", self.hidden, self.hidden if i else inputs) for i in range(1 + self.depth)]
        widths += [(f"out.{name}", t.numel(), self.hidden) for name, t in self.made(fed).items()]
        embedding = fed.random("hypernetwork embedding").standard_normal((fed.size, inputs))
        phi = Tree(embedding=theta["head.weight"].new_tensor(embedding))
        for name, outputs, columns in widths:
            for kind, shape in (("weight", (outputs, columns)), ("bias", (outputs,))):
                unit = 2 * fed.random(f"hypernetwork {name}.{kind}").random(shape, dtype="float32") - 1
                phi[f"{name}.{kind}"] = theta["head.weight"].new_tensor(unit / columns**0.5)
        statistics = {name: theta[name] for name in fed.model.statistics}
        server = {"phi": phi, "speed": phi.map(torch.zeros_like), "statistics": statistics}
        return State(server, {"head": fed.replicate(theta.part("head"))} if self.own_head else {})

    def generate(self, phi: Tree, ids: Tensor, like: Tree) -> Tree:
        """h(v_i; Φ) for the clients `ids` [n], a stack with rows in the shapes of those of `like`."""
        z = phi.embedding[ids]
        for i in range(1 + self.depth):
            z = linear(phi, f"hidden.{i}", z.relu() if i else z)
        return Tree((name, linear(phi, f"out.{name}", z).unflatten(1, t.shape[1:])) for name, t in like.items())

    def round(self, fed: Federation, s: State) -> State:
        phi, speed, trained = s.server.phi.map(torch.clone), s.server.speed.map(torch.clone), []
        (order,) = orders(fed, {"order": fed.size})
        for places, turns in map(torch.sort, order.split(self.clients_at_once or fed.size)):
            clients = fed.subset(places)
            start = self.received(clients, s.gather(places).update(server={"phi": phi}))
            clients.send(start.part("extractor") if self.own_head else start)
            theta = clients.train(start, self.loss, steps=self.local_steps).theta
            delta = clients.upload(Tree((name, start[name] - theta[name]) for name in self.made(fed)))
            if not lost_uploads(clients).all():  # the engine runs a round of its own for those whose uploads are lost
                self.learn(phi, speed, clients.ids, delta, turns.argsort())
            trained.append((places, theta))
        theta = joined(fed.size, trained)
        means = fed.average(fed.upload({name: theta[name] for name in s.server.statistics}))
        heads = {"head": theta.part("head")} if self.own_head else {}
        return s.update(server={"phi": phi, "speed": speed, "statistics": means}, clients=heads, trained=theta)

    def learn(self, phi: Tree, speed: Tree, ids: Tensor, delta: Tree, order: Tensor) -> None:
        """Steps of Φ, in place, for clients `ids` [n] that trained models of one Φ by −Δ, in this `order` [n]."""
        steps = order.unsqueeze(1 if self.server_step == "sequential" else 0)
        for clients in steps:
            pull = torch.func.vjp(lambda phi, ids=ids[clients]: self.generate(phi, ids, delta), phi)[1]
            self.descend(phi, speed, pull(delta.rows(clients) / len(clients))[0], 1 / len(steps))

    def descend(self, phi: Tree, speed: Tree, slope: Tree, share: float) -> None:
        """A step by a share of the rates, in place, since Φ is a hundred times larger than a model."""
        lengths = [torch.linalg.vector_norm(g, dim=-1).double().square().sum() for g in leaves(slope)]
        scale = (self.clip / torch.stack(lengths).sum().sqrt().clamp(min=1e-12)).clamp(max=1)
        rates = {"embedding": self.server_lr if self.embedding_lr is None else self.embedding_lr}
        for name, g in slope.items():
            speed[name].mul_(self.momentum).add_(g.mul_(scale)).add_(phi[name], alpha=self.decay)
            phi[name].sub_(speed[name], alpha=share * rates.get(name, self.server_lr))

    def received(self, fed: Federation, s: State) -> Tree:
        made = self.generate(s.server.phi, fed.ids, fed.replicate(self.made(fed)))
        theta = made | fed.replicate(s.server.statistics) | s.clients.get("head", {})
        return Tree((name, theta[name]) for name in fed.initial())


def linear(phi: Tree, name: str, z: Tensor) -> Tensor:
    """A layer. For one client without a matrix product, whose gradient's bits depend on the number of threads."""
    weight: Tensor = phi[f"{name}.weight"]
    return ((weight * z).sum(dim=1).unsqueeze(0) if len(z) == 1 else z @ weight.T).add(phi[f"{name}.bias"])
