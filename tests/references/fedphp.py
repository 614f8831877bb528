"""FedPHP (Li et al., ECML PKDD 2021): the running average of a client's trained models teaches its next training.

Local loss (1 − λ)·CE + λ·MMD²(z, z_p); then p_i ← μ_i p_i + (1 − μ_i) θ_i, μ_i = μ_max·min(1, c_i/⌊ρT⌋).
"""

from references.clients import Clients, features, head, logits, mixed, sgd
from torch import cat
from torch.nn.functional import cross_entropy

# λ is small, since rounding errors grow where z comes near z_p
MODEL = "private"
SETTINGS = ({}, {"lam": 0.08, "mu_max": 0.5}, {"lam": 0.4, "lesson": "predictions"})


def squares(a, b):
    """‖a_i − b_j‖² [A, B]."""
    return (a[:, None] - b[None, :]).square().sum(dim=2)


def mmd(z, z_p):
    """The mean of K(z, z) + K(z_p, z_p) − K(z, z_p) − K(z_p, z) over B×B pairs, with five Gaussian kernels."""
    both = cat([z, z_p]).detach()
    pairs = len(both) * (len(both) - 1)
    b = squares(both, both).sum() / pairs + 1e-8

    def kernel(a, other):
        return sum((-squares(a, other) / (s * b)).exp() for s in (0.25, 0.5, 1, 2, 4))

    return (kernel(z, z) + kernel(z_p, z_p) - kernel(z, z_p) - kernel(z_p, z)).mean()


def taught(private, lam, lesson):
    def loss(theta, x, y):
        z = features(theta, x)
        if lesson == "features":
            teaching = mmd(z, features(private, x))
        else:
            softened = (logits(private, x) / 4).softmax(dim=1)
            teaching = -(softened * head(theta, z).log_softmax(dim=1)).sum(dim=1).mean()
        return (1 - lam) * cross_entropy(head(theta, z), y) + lam * teaching

    return loss


def state(c: Clients, lam=0.05, mu_max=0.9, lesson="features"):
    training = c.simulation.training
    usual = max(1, int(training.participation * training.rounds))
    w, p, times = c.start, [c.start] * len(c.ids), [0.0] * len(c.ids)
    for t in range(training.rounds):
        drawn = c.drawn(t)
        theta = {i: sgd(w, c.batches(i, t), taught(p[i], lam, lesson)) for i in drawn}
        for i in drawn:
            mu = mu_max * min(1.0, times[i] / usual)
            p[i] = mixed([mu, 1 - mu], [p[i], theta[i]])
            times[i] += 1
        w = mixed(c.weights(drawn), list(theta.values()))
    return {"theta": w}, [{"private": own, "rounds": number} for own, number in zip(p, times, strict=True)]
