"""FedBABU: the head stays at its random start, and the extractor alone is trained and averaged; clients fine-tune both.

Oh, Kim & Yun, FedBABU: Toward Enhanced Representation for Federated Image Classification, ICLR 2022, Algorithm 1:
φ_i descends F_i(φ, π⁰) from φ, and φ ← Σ p_i φ_i. Before a client uses (φ, π⁰), it fine-tunes it on its own images.

    φ     the extractor in s.server.theta
    π⁰    the head in s.server.theta, which is θ⁰'s for ever
    p_i   fed.weights

Readings

* Clients are weighted by their number of images, as in FedAvg; the authors' code averages uniformly.
* Clients fine-tune the new average, at the study's rate and with its optimiser. PFLlib fine-tunes each client's last
  local model instead, once at the end, and reports the best accuracy of the rounds before.
* Fine-tuning takes five epochs, however many a round has, since the head is random. On digits (eight clients, Dirichlet
  with β = 0.1, one epoch a round) one epoch of it lowered the accuracy of one seed of three, from 88 % to 83 %; five
  raised it to 95 %.
* In training the optimiser never sees the head. FL-bench zeroes the head's gradient, so that weight decay still shrinks
  it, and sends it.
* `global` is the model before fine-tuning, which the authors' code scores too.
* The formulas are written from memory of the paper and from the authors' code; the paper's epochs of fine-tuning were
  not checked.
"""

from fedgrid.methods import Federation, Identity, State, Tree, hp
from fedgrid.methods.fedavg import FedAvg

PARTS = {"all": "", "head": "head", "body": "extractor"}
STILL = {"local_epochs": 0}
FIT_ALL = {"finetune_epochs": 2}
FIT_HEAD = FIT_ALL | {"layers": "head"}


class FedBABU(FedAvg):
    source = "Oh, Kim & Yun, ICLR 2022"
    family = "global model, its head fixed, fine-tuned by each client"
    cite = "oh2022fedbabu"
    score = "adapted"
    shares = "φ"
    down = up = "|φ|"
    identities = [
        Identity("fedrep", {"finetune_epochs": 0}, {"head_epochs": 0}),  # whose heads stay at their start too
        Identity("fedavg", {"finetune_epochs": 0}, training=STILL, clients=1),
        Identity("fedavg_ft", FIT_ALL, FIT_ALL, training=STILL, exact=False),  # both fine-tune θ⁰
        Identity("fedavg_ft", FIT_HEAD, FIT_HEAD, training=STILL, exact=False),
    ]

    layers: str = hp("all", choices=tuple(PARTS))
    "What a client fine-tunes: the whole model, the head alone or the extractor (body) alone."
    finetune_epochs: int | None = hp(5, low=0)
    "Epochs of fine-tuning (authors' code; PFLlib: 10); none means the study's local epochs."

    def round(self, fed: Federation, s: State) -> State:
        head = fed.replicate(s.server.theta.part("head"))
        start = fed.broadcast(s.server.theta.part("extractor")) | head
        local = fed.train(start, self.loss, part="extractor").theta
        average = fed.average(fed.upload(local.part("extractor")))
        return s.update(server={"theta": s.server.theta | average}, trained=local)

    def adapted(self, fed: Federation, s: State) -> Tree:
        start = fed.replicate(s.server.theta)
        return fed.train(start, self.loss, part=PARTS[self.layers], epochs=self.finetune_epochs).theta
