"""FedOpt: the server takes the clients' mean update for a gradient and steps by momentum, Adam, Yogi or Adagrad.

Reddi, Charles, Zaheer, Garrett, Rush, Konečný, Kumar & McMahan, Adaptive Federated Optimization, ICLR 2021, Algorithm 2
(FedAdam, FedYogi, FedAdagrad); Hsu, Qi & Brown, Measuring the Effects of Non-Identical Data Distribution for Federated
Visual Classification, arXiv:1909.06335, 2019 (FedAvgM). With Δ = Σ p_i(θ_i − w) and entry by entry,

    momentum    m ← β₁m + Δ,  w ← w + η·m
    others      m ← β₁m + (1 − β₁)Δ,  w ← w + η·m/(√v + τ), where
    adam        v ← β₂v + (1 − β₂)Δ²
    yogi        v ← v − (1 − β₂)Δ²·sign(v − Δ²)
    adagrad     v ← v + Δ²

    w       s.server.theta
    m, v    s.server.first, s.server.second, at first 0 and τ²: of parameters alone

Readings

* One file, since all but one line is common: in a study, `fedavgm: {method: fedopt, kind: momentum}`.
* Updates are weighted by images. Algorithm 2, as far as we remember, has their plain mean; the paper's text was not
  checked.
* Moments are not corrected for their start at 0 (FedRepo and TensorFlow's optimisers do so), and v is made of Δ, not
  of m as in FedExP's code.
* Hsu et al., as far as we remember, use Nesterov's form, whose step is η·(Δ + β₁m): `nesterov`. FL-bench's FedAvgM
  has it too, so that its first step is 1.9·Δ.
* Batch-norm statistics are plain averages; FL-bench steps them too, and a variance may fall below 0.
"""

import torch

from fedgrid.methods import Federation, Identity, State, Tree, hp
from fedgrid.methods.common.server_steps import ServerStep

USUAL = {"momentum": (1.0, 0.9), "adam": (0.03, 0.9), "yogi": (0.1, 0.9), "adagrad": (0.1, 0.0)}
"η and β₁ where they are not given."
FLAT = {"beta1": 0.0, "tau": 1e12, "server_lr": 1e12, "start": 0.0}
"Under which √v is nothing beside τ."


class FedOpt(ServerStep):
    source = "Reddi et al., ICLR 2021"
    cite = "reddi2021fedopt"
    identities = [
        *(Identity("fedavg", {"kind": "momentum", "beta1": 0.0, "nesterov": on}, exact=False) for on in (False, True)),
        *(Identity("fedavg", FLAT | {"kind": kind}, exact=False) for kind in ("adam", "yogi", "adagrad")),
        Identity("local", {"kind": "momentum", "beta1": 0.0}, clients=1, exact=False),
    ]

    kind: str = hp("adam", choices=tuple(USUAL))
    "FedAvgM, FedAdam, FedYogi or FedAdagrad."
    server_lr: float | None = hp(None, above=0)
    """Rate η of the server; none: 1 for momentum, 0.03 for adam, 0.1 else (FL-bench: 0.1 for all three, with which Adam
    may destroy a young model). The paper, as far as we remember, tunes it from 0.001 to 10; fluke has 0.001."""
    beta1: float | None = hp(None, low=0, high=1)
    "Decay β₁ of m; none: 0 for adagrad, 0.9 else (paper, as remembered; FL-bench: 0.9 for all)."
    beta2: float = hp(0.99, low=0, high=1)
    "Decay β₂ of v (paper, as remembered; FL-bench and fluke: 0.999)."
    tau: float = hp(1e-3, above=0)
    "Adaptivity τ, which bounds a step by η/τ times m (paper, as remembered, and FL-bench; fluke: 1e-4)."
    start: float | None = hp(None, low=0)
    "v at the start; none: τ² (paper, as remembered: at least that; FL-bench and fluke: 0)."
    nesterov: bool = hp(False)
    "On: momentum has Nesterov's form (FL-bench); the other kinds have none."

    def setup(self, fed: Federation) -> State:
        zero = fed.parameters(fed.initial()).map(torch.zeros_like)
        start = self.tau**2 if self.start is None else self.start
        second = {} if self.kind == "momentum" else {"second": zero + start}
        return super().setup(fed).update(server={"first": zero} | second)

    def second_moment(self, v: Tree, squares: Tree) -> Tree:
        """The new v, for Δ² = `squares`."""
        if self.kind == "adagrad":
            return v + squares
        excess = squares - v
        return v + (1 - self.beta2) * (excess if self.kind == "adam" else squares * excess.map(torch.sign))

    def server_step(self, fed: Federation, updates: Tree, s: State) -> tuple[Tree, State]:
        eta = USUAL[self.kind][0] if self.server_lr is None else self.server_lr
        beta1 = USUAL[self.kind][1] if self.beta1 is None else self.beta1
        delta = fed.average(updates)
        if self.kind == "momentum":
            m = beta1 * s.server.first + delta
            return eta * (delta + beta1 * m if self.nesterov else m), s.update(server={"first": m})
        m = beta1 * s.server.first + (1 - beta1) * delta
        v = self.second_moment(s.server.second, delta * delta)
        return eta * m / (v.map(torch.sqrt) + self.tau), s.update(server={"first": m, "second": v})
