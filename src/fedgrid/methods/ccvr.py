"""CCVR: FedAvg; after the last round the server refits the head to features drawn from one Gaussian per class.

Luo, Chen, Hu, Zhang, Liang & Feng, No Fear of Heterogeneity: Classifier Calibration for Federated Learning with Non-IID
Data, NeurIPS 2021, Algorithm 1. After the last round clients send the mean μ_ic and the covariance Σ_ic of the features
of each of their classes under the averaged model. With N_c = Σ_i n_ic, the server forms μ_c = Σ_i n_ic μ_ic/N_c and

    Σ_c = Σ_i (n_ic − 1)/(N_c − 1)·Σ_ic + Σ_i n_ic/(N_c − 1)·μ_ic μ_icᵀ − N_c/(N_c − 1)·μ_c μ_cᵀ,

draws M_c features from N(μ_c, Σ_c) for each class, and trains the head π on them by cross entropy.

    w             s.server.theta; its head is the calibrated one after the last round
    n_ic          fed.counts
    μ_ic          means, of features under w in evaluation mode
    μ_c, Σ_c      pooled, from the means and the first sum of Σ_c times N_c − 1, `within`
    M_c           samples

Readings

* Written as specified from memory of the paper and a reading of FL-bench's code. Neither the paper's text nor code by
  its authors was at hand, so the paper's optimiser for the head is unknown; FL-bench's is used.
* Σ_ic is the unbiased covariance, as the formula needs: Σ_c is then the covariance of all features of the class, as if
  they were in one place. FL-bench divides by n_ic, so its Σ_c is too small. The last two sums are computed as
  Σ_i n_ic/(N_c − 1)·(μ_ic − μ_c)(μ_ic − μ_c)ᵀ, which is equal and avoids cancellation.
* Another public code, smduan's Fed-CCVR, draws 2000 features for each class and trains 10 epochs at a rate of 0.001
  with momentum 0.9. Its moments of a class include the client's features of all classes before it.
* The participants of the last round send; FL-bench asks all clients, before every test. If no upload of that round
  arrives, the head stays FedAvg's. A client with one image of a class sends no covariance of it.
* Clients need w's extractor for their features. So in the last round |φ| more numbers come down; k for each class that
  a client has, and k² for each of which it has two images or more, go up. These are the M of the formulas.
* The head starts from w's. A class with a single image has Σ_c = 0: its M_c features all equal that image's. Of a class
  without images nothing is drawn, and the head unlearns it. So the last round's participants should have all classes.
* Σ_c^{1/2} is symmetric, with negative eigenvalues taken as 0: Σ_c is singular where a class has few images.
* Before the last round CCVR is FedAvg, in its scores too. A longer run cannot continue from a shorter one, whose last
  round would be calibrated.
"""

import torch

from fedgrid.engine.local.optimizers import Optimizer
from fedgrid.methods import Federation, Identity, State, Tensor, Tree, hp
from fedgrid.methods.common.banks import by_class
from fedgrid.methods.common.heads import learned
from fedgrid.methods.common.orders import orders
from fedgrid.methods.fedavg import FedAvg

ROUNDING = 1e-12
"Eigenvalues of a singular Σ_c that are smaller, as shares of the largest, are rounding."


class CCVR(FedAvg):
    title = "CCVR"
    source = "Luo et al., NeurIPS 2021"
    family = "one global model, its head calibrated at the end"
    cite = "luo2021ccvr"
    shares = "θ; in the last round also φ, class means and covariances"
    down = up = "|θ| + M"
    identities = [Identity("fedavg", {"server_epochs": 0}), Identity("local", {"server_epochs": 0}, clients=1)]

    samples: int = hp(200, low=1)
    "Features M_c drawn for each class (FL-bench; paper, as remembered: 100 to 2000 by data set)."
    server_epochs: int = hp(1, low=0)
    "Epochs of the head over the drawn features (FL-bench: 1); 0 is FedAvg."
    server_lr: float = hp(0.01, low=0)
    "Learning rate of plain SGD on the head (FL-bench: the study's rate, by default 0.01)."
    server_batch: int = hp(32, low=1)
    "Batch size of the server, in drawn features (FL-bench: the study's batch size, by default 32)."

    def round(self, fed: Federation, s: State) -> State:
        s = super().round(fed, s)
        if not self.server_epochs or fed.round < fed.training.rounds - 1:
            return s
        with fed.phase("calibration"):
            return s.update(server={"theta": s.server.theta | self.calibrated_head(fed, s.server.theta)})

    def calibrated_head(self, fed: Federation, theta: Tree) -> Tree:
        """π, trained on features drawn from the Gaussians of the classes that the participants have."""
        known, head = fed.counts.sum(dim=0).nonzero().flatten(), theta.part("head")
        mu, sigma = pooled(fed.counts, *self.moments(fed, theta))
        z = self.drawn(fed, mu, sigma)[known].flatten(0, 1).type_as(head["head.weight"])
        labels = known.repeat_interleave(self.samples)
        epochs = orders(fed, {f"server {t}": len(labels) for t in range(self.server_epochs)})
        sgd = Optimizer(self.server_lr)
        return learned(fed.model, head, z, labels, optimizer=sgd, epochs=epochs, size=self.server_batch)

    def moments(self, fed: Federation, theta: Tree) -> tuple[Tensor, Tensor]:
        """μ_ic [n, C, k] and Σ_i (n_ic − 1)·Σ_ic [C, k, k], float64, from the moments that clients send."""
        fed.broadcast(theta.part("extractor"))
        features = by_class(fed, fed.replicate(theta))
        means = torch.stack([z.sum(dim=0) / max(1, len(z)) for z in features]).unflatten(0, (fed.size, -1))
        means, within = fed.upload(means, fed.counts > 0), torch.zeros((), dtype=torch.float64, device=fed.ids.device)
        for i, counts in enumerate(fed.counts):  # client by client, since all covariances together may be large
            of_client = features[i * len(counts) : (i + 1) * len(counts)]
            covariances = torch.stack([covariance(z) for z in of_client]).unsqueeze(0)
            sent = fed.subset(slice(i, i + 1)).upload(covariances, counts.unsqueeze(0) > 1).squeeze(0)
            within = within + (counts - 1).clamp(min=0).reshape(-1, 1, 1) * sent.double()
        return means.double(), within

    def drawn(self, fed: Federation, mu: Tensor, sigma: Tensor) -> Tensor:
        """Features drawn from N(μ_c, Σ_c) for each class [C, M_c, k]."""
        values, vectors = torch.linalg.eigh(sigma)
        values = torch.where(values > ROUNDING * values[:, -1:], values, 0).clamp(min=0)
        root = (vectors * values.sqrt().unsqueeze(1)) @ vectors.mT
        normal = fed.random("features").standard_normal((len(mu), self.samples, mu.shape[1]))
        noise: Tensor = mu.new_tensor(normal) @ root
        return mu.unsqueeze(1) + noise


def covariance(z: Tensor) -> Tensor:
    """The unbiased covariance [k, k] of features [m, k]; 0 for fewer than two."""
    apart = z - z.mean(dim=0)
    return apart.T @ apart / max(1, len(z) - 1)


def pooled(counts: Tensor, means: Tensor, within: Tensor) -> tuple[Tensor, Tensor]:
    """μ_c [C, k] and Σ_c [C, k, k] from n_ic [n, C], μ_ic [n, C, k] and Σ_i (n_ic − 1)·Σ_ic [C, k, k]; 0 if unknown."""
    total = counts.sum(dim=0)
    mean = torch.einsum("nc,nck->ck", counts / total.clamp(min=1), means)
    apart = means - mean
    between = torch.einsum("nc,nck,ncl->ckl", counts, apart, apart)
    return mean, (within + between) / (total - 1).clamp(min=1).reshape(-1, 1, 1)
