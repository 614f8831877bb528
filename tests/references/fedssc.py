"""FedSSC (Hu et al., 2023, Algorithm 1, Eqs. 1–5): MOON + a contrast with class means R_c of clients that are drawn."""

import torch
from references.clients import CLASSES, EXTRACTOR, HEAD, NAMES, WIDTH, Clients, cosine, features, mixed, plain, sgd
from references.moon import contrast

SETTINGS = (
    {},
    {"minimum": 2, "decay": 3},
    {"minimum": 1, "shared": None, "mu_glob": 2.0, "negatives": "batch", "head_rounds": 1},
    {"minimum": 1, "shared": 2, "mu_moon": 0.0, "negatives": "batch-joint", "temperature": 0.8},
)


def shared_contrast(z, y, means, temperature, negatives):
    """L_glob: every sample with R_c and, unless these are all the negatives, with the other samples of its batch."""
    terms = []
    for b, label in enumerate(y.tolist()):
        bank = list(means.items())
        if negatives != "shared":
            bank += [(other, z[place]) for place, other in enumerate(y.tolist()) if place != b]
        logits = [cosine(z[b], vector) / temperature for _, vector in bank]
        positive = [logit for logit, (k, _) in zip(logits, bank, strict=True) if k == label]
        if positive:
            of_positives = torch.stack(positive)
            of_positives = of_positives.mean() if negatives == "batch" else of_positives.logsumexp(0)
            terms.append(torch.stack(logits).logsumexp(0) - of_positives)
    return torch.stack(terms).mean() if terms else 0.0


def state(
    c: Clients,
    mu_moon=0.1,
    mu_glob=1.0,
    end=0.1,
    decay=100,
    temperature=0.5,
    minimum=10,
    shared=1,
    negatives="shared",
    head_rounds=0,
):
    w, previous, means = c.start, [c.start] * len(c.ids), {}
    rounds = c.simulation.training.rounds
    for t in range(rounds):
        drawn, received = c.drawn(t), w
        weight = mu_glob * (1 - (1 - end) * min(t / decay, 1))
        names = NAMES if not head_rounds else HEAD if t >= rounds - head_rounds else EXTRACTOR
        for i in drawn:

            def loss(theta, x, y, w=received, before=previous[i], names=names, weight=weight, means=means):
                contrasts = mu_moon * contrast(theta, x, w, before, temperature)
                contrasts = contrasts + weight * shared_contrast(features(theta, x), y, means, temperature, negatives)
                return (plain(theta, x, y) if names != EXTRACTOR else 0) + (contrasts if names != HEAD else 0)

            previous[i] = sgd(received, c.batches(i, t), loss, names=names)
        w = mixed(c.weights(drawn), [previous[i] for i in drawn])
        numbers = c.random(t, "shared").random((len(drawn), CLASSES))
        for k in range(CLASSES if names != HEAD else 0):
            offering = [place for place, i in enumerate(drawn) if c.counts[i, k] >= minimum]
            # drawn are those with the smallest numbers
            offering = sorted(offering, key=lambda place, k=k: numbers[place, k])[:shared]
            offered = [features(previous[i], c.x[i])[c.y[i] == k].mean(dim=0) for i in (drawn[p] for p in offering)]
            if offered:
                means = means | {k: torch.stack(offered).mean(dim=0)}
    known = torch.tensor([k in means for k in range(CLASSES)])
    prototypes = torch.stack([means.get(k, torch.zeros(WIDTH).double()) for k in range(CLASSES)])
    return {"theta": w, "prototypes": prototypes, "known": known}, [{"previous": theta} for theta in previous]
