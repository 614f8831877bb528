"""FedRep: fit the head on the frozen extractor, then the extractor on the frozen head; average the extractor.

Collins, Hassani, Mokhtari & Shakkottai, ICML 2021.
"""

from fedgrid.components import hp
from fedgrid.engine.federation import Federation
from fedgrid.engine.method import State
from fedgrid.methods.fedper import FedPer


class FedRep(FedPer):
    source = "Collins et al., ICML 2021"
    identities = ()

    head_epochs: int | None = hp(None, low=0)
    "Epochs of the first phase, P_h."
    body_epochs: int | None = hp(None, low=0)
    "Epochs of the second phase, P_b."

    def round(self, fed: Federation, s: State) -> State:
        start = s.clients.theta | fed.broadcast(s.server.theta)
        fitted = fed.train(start, self.loss, epochs=self.head_epochs, part="head", stream="head")
        local = fed.train(fitted.theta, self.loss, epochs=self.body_epochs, part="extractor")
        average = fed.average(fed.upload(self.shared(local.theta)))
        return s.update(server={"theta": average}, clients={"theta": local.theta}, trained=local.theta)
