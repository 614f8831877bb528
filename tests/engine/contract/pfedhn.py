"""pFedHN: a hypernetwork on the server generates every client's model from an embedding of the client.

Shamsian, Navon, Fetaya & Chechik, ICML 2021, in the `mean` form: one step with the mean of the clients' gradients.
"""

import math

import torch
from torch import Tensor

from fedgrid.components import hp
from fedgrid.engine.federation import Federation
from fedgrid.engine.method import Method, State
from fedgrid.tree import Tree, tree_map


class PFedHN(Method):
    source = "Shamsian et al., ICML 2021"
    shares = "θ"

    hidden: int = hp(8, low=1)
    "Width of the hypernetwork."
    server_lr: float = hp(0.01, low=0)
    "Step size of the hypernetwork."
    momentum: float = hp(0.9, low=0)
    "Momentum of the hypernetwork, kept over rounds."
    clip: float = hp(50.0, above=0)
    "Largest norm of its gradient."

    def setup(self, fed: Federation) -> State:
        theta, inputs = fed.initial(), 1 + fed.size // 4
        sizes = {"embedding": (fed.size, inputs), "hidden": (self.hidden, inputs)}
        sizes |= {f"out.{key}": (t.numel(), self.hidden) for key, t in theta.items()}
        some = next(iter(theta.values()))

        def draw(name: str, shape: tuple[int, int]) -> Tensor:
            bound = 1 / math.sqrt(shape[1])
            return some.new_tensor(fed.random(f"hypernetwork {name}").uniform(-bound, bound, shape))

        phi = {name: draw(name, shape) for name, shape in sizes.items()}
        return State().update(server={"phi": phi, "speed": tree_map(torch.zeros_like, phi)})

    def generate(self, phi: Tree, fed: Federation) -> Tree:
        hidden = (phi["embedding"][fed.ids] @ phi["hidden"].T).relu()
        shapes = {key: t.shape for key, t in fed.initial().items()}
        return {key: (hidden @ phi[f"out.{key}"].T).reshape(fed.size, *shape) for key, shape in shapes.items()}

    def round(self, fed: Federation, s: State) -> State:
        start, pull = torch.func.vjp(lambda phi: self.generate(phi, fed), s.server.phi)
        fed.broadcast({key: t[0] for key, t in start.items()})  # every client gets a model of this size
        local = fed.train(start, self.loss)
        delta = fed.upload(tree_map(torch.sub, start, local.theta))
        slope = tree_map(lambda g: g / fed.size, pull(delta)[0])
        norm = torch.stack([g.square().sum() for g in slope.values()]).sum().sqrt()
        scale = (self.clip / norm.clamp(min=1e-12)).clamp(max=1)
        speed = tree_map(lambda v, g: self.momentum * v + scale * g, s.server.speed, slope)
        phi = tree_map(lambda p, v: p - self.server_lr * v, s.server.phi, speed)
        return s.update(server={"phi": phi, "speed": speed}, trained=local.theta)

    def personal(self, fed: Federation, s: State) -> Tree:
        return self.generate(s.server.phi, fed)
