"""FPL (Huang et al., CVPR 2023): cross entropy + contrast with cluster prototypes + MSE to the unbiased prototype.

At most three clients of the federation have a class, and FINCH makes one cluster of up to three vectors.
"""

import torch
from references.clients import CLASSES, WIDTH, Clients, cosine, features, mixed, plain, sgd

SETTINGS = ({}, {"contrast": 0.5, "pull": 2.0, "temperature": 0.5})
TRAINING = {"local_epochs": 1}
"Logits of up to ±1/τ = ±50 make more of every error of rounding: two epochs would come near the tolerance."


def state(c: Clients, contrast=0.3, pull=1.0, temperature=0.02):
    w, prototypes = c.start, {}
    for t in range(c.simulation.training.rounds):
        drawn = c.drawn(t)

        def loss(theta, x, y, prototypes=prototypes):
            terms = []
            for z, label in zip(features(theta, x), y.tolist(), strict=True):
                if label in prototypes:
                    logits = {k: cosine(z, g) / temperature for k, g in prototypes.items()}
                    share = torch.stack(list(logits.values())).logsumexp(0) - logits[label]
                    terms.append(contrast * share + pull * (z - prototypes[label]).square().mean())
            return plain(theta, x, y) + (torch.stack(terms).mean() if terms else 0)

        trained = {i: sgd(w, c.batches(i, t), loss) for i in drawn}
        w = mixed(c.weights(drawn), list(trained.values()))
        means = {
            k: [features(trained[i], c.x[i])[c.y[i] == k].mean(dim=0) for i in drawn if c.counts[i, k]]
            for k in range(CLASSES)
        }
        prototypes = prototypes | {k: torch.stack(of).mean(dim=0) for k, of in means.items() if of}
    nothing = torch.zeros(WIDTH).double()
    vectors = torch.stack([prototypes.get(k, nothing) for k in range(CLASSES)])
    held = torch.tensor([k in prototypes for k in range(CLASSES)])
    return {"theta": w, "vectors": vectors[:, None], "held": held[:, None]}, []
