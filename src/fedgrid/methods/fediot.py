"""FedIoT: clients train autoencoders without labels, the server a classifier on a labelled set of its own.

Zhao, Barnaghi & Haddadi, Multimodal Federated Learning on IoT Data, IoTDI 2022, Algorithm 1, as FedSaC takes it for a
baseline: clients have pictures or texts, none has both. Encoder and decoder of a modality are averaged over its
clients; one classifier serves all modalities.

    f_m    encoder, the extractor of modality m: in s.server.theta
    d_m    decoder: in s.server.decoders, of M numbers
    g      classifier, the head: in s.server.theta, trained by the server alone

Readings

* FedSaC says "unsupervised training on local clients and supervised aggregation on the server" and no more. Here the
  encoders are the extractors of its networks in place of LSTMs. A picture comes back through transposed convolutions,
  with its squared error after normalisation; a text as its bag of words, since embeddings that are trained would
  collapse. Clients train as the study says (authors: 2 epochs of Adam at 0.01).
* Labelled are 11 % of the clients' training images, of each class and modality, at least one. They stay with their
  clients, without labels there; the authors' server has images that no client has.
* Every client of a modality counts alike, as in the authors' code, where all have equally much data.
* Nothing aligns what the encoders of pictures and of texts say, since no client has both. That is the setting's.
"""

import torch

from fedgrid.engine.local.optimizers import Optimizer
from fedgrid.methods import Batch, Federation, LossContext, Method, State, Tensor, Tree, hp
from fedgrid.methods.common.decoders import initial, reconstruction
from fedgrid.methods.common.heads import learned
from fedgrid.methods.common.orders import orders


class FedIoT(Method):
    title = "FedIoT"
    source = "Zhao et al., IoTDI 2022"
    family = "one global model, trained without labels of clients"
    cite = "zhao2022fediot"
    score = "global"
    work = "E"
    shares = "φ and a decoder"
    down = up = "|φ| + M"
    multimodal = True

    labelled: float = hp(0.11, above=0, high=1)
    "Share of the training images that the server has with their labels (authors' code)."
    server_epochs: int = hp(5, low=0)
    "Epochs of the classifier in a round (authors' code)."
    server_lr: float = hp(0.01, low=0)
    "Adam's rate for the classifier, whose moments are new in every round (authors' code: 0.001)."
    server_batch: int = hp(64, low=1)
    "Representations in a batch of the server."
    channels: int = hp(32, low=1)
    "Channels before the last convolution of a decoder of pictures; each one before it has twice as many."

    def setup(self, fed: Federation) -> State:
        return State(server={"theta": fed.initial(), "decoders": initial(fed, self.channels)})

    def loss(self, theta: Tree, batch: Batch, at: LossContext) -> Tensor:
        z = at.model.features(theta, batch.x)
        return reconstruction(theta, at.model.modality, z, batch.x)

    def with_classifier(self, theta: Tree, at: LossContext) -> Tree:
        """f_m and g, against which an adversary moves pictures."""
        return theta | at.server.theta.part("head")

    def round(self, fed: Federation, s: State) -> State:
        sent = s.server.theta.part("extractor") | s.server.decoders
        trained = fed.upload(fed.train(fed.broadcast(sent), self.loss, model=self.with_classifier).theta)
        for network, where in fed.modalities:  # the others stay
            equal = torch.full_like(fed.weights[where], 1 / len(where))
            sent |= fed.average(network.part_of_modality(trained.rows(where)), equal)
        theta = s.server.theta | sent.part("extractor")
        server = {"theta": theta | self.classifier(fed, theta), "decoders": sent.part("decoder")}
        return s.update(server=server)

    def classifier(self, fed: Federation, theta: Tree) -> Tree:
        """The classifier g after its epochs on the encoders' representations of all modalities' labelled images."""
        sample = list(fed.sample("labelled", self.labelled))
        z = torch.cat([network.features(theta, batch.x) for network, batch in sample])
        y = torch.cat([batch.y for _, batch in sample])
        epochs = orders(fed, {f"server {t}": len(y) for t in range(self.server_epochs)})
        adam = Optimizer(self.server_lr, "adam")
        return learned(fed.model, theta.part("head"), z, y, optimizer=adam, epochs=epochs, size=self.server_batch)

    def global_model(self, s: State) -> Tree:
        return s.server.theta
