"""FML (Shen et al., 2020): a private model and the server's copy, the meme, each learn from labels and from each other.

Private: α·CE + (1 − α)·KL(meme ‖ private); meme: β·CE + (1 − β)·KL(private ‖ meme), both from the batch's start.
"""

from references.clients import ETA, Clients, logits, mixed, sgd
from torch.nn.functional import cross_entropy

MODEL = "personal"
SETTINGS = ({}, {"alpha": 0.3, "beta": 0.8, "lr": 0.2})


def imitating(other, share):
    """share·CE + (1 − share)·mean_b Σ_c p_c·log(p_c/q_c), where p are the other model's probabilities."""

    def loss(theta, x, y):
        z = logits(theta, x)
        log_p, log_q = logits(other, x).log_softmax(dim=1), z.log_softmax(dim=1)
        return share * cross_entropy(z, y) + (1 - share) * (log_p.exp() * (log_p - log_q)).sum(dim=1).mean()

    return loss


def state(c: Clients, alpha=0.9, beta=0.5, lr=ETA):
    w, v = c.start, [c.start] * len(c.ids)
    for t in range(c.simulation.training.rounds):
        drawn, memes = c.drawn(t), []
        for i in drawn:
            meme = w
            for batch in c.batches(i, t):
                private = sgd(v[i], [batch], imitating(meme, alpha), lr)
                meme, v[i] = sgd(meme, [batch], imitating(v[i], beta), lr), private
            memes.append(meme)
        w = mixed(c.weights(drawn), memes)
    return {"theta": w}, [{"personal": personal} for personal in v]
