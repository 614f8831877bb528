"""MOON (Li, He & Song, CVPR 2021, Eqs. 3–5): features near the global model's, far from the last local one's."""

from references.clients import Clients, cosine, features, mixed, plain, sgd

SETTINGS = ({}, {"mu": 3.0, "temperature": 0.3})


def contrast(theta, x, w, previous, temperature):
    """The mean of −log[e^{s_g/τ} / (e^{s_g/τ} + e^{s_p/τ})]."""
    z = features(theta, x)
    near, far = ((cosine(z, features(other, x)) / temperature).exp() for other in (w, previous))
    return -(near / (near + far)).log().mean()


def state(c: Clients, mu=0.1, temperature=0.5):
    w, previous = c.start, [c.start] * len(c.ids)
    for t in range(c.simulation.training.rounds):
        drawn, received = c.drawn(t), w
        for i in drawn:

            def loss(theta, x, y, w=received, before=previous[i]):
                return plain(theta, x, y) + mu * contrast(theta, x, w, before, temperature)

            previous[i] = sgd(received, c.batches(i, t), loss)
        w = mixed(c.weights(drawn), [previous[i] for i in drawn])
    return {"theta": w}, [{"previous": theta} for theta in previous]
