"""LG-FedAvg (Liang et al., arXiv 2001.01523): every client has its own extractor φ_i, and heads are averaged."""

from references.clients import HEAD, Clients
from references.fedper import SHARED, averaged
from references.fedper import TRAINING as TRAINING

SETTINGS = ({}, {"local_part": "nothing"}, {"local_part": "all"})


def state(c: Clients, local_part="extractor"):
    return averaged(c, (SHARED | {"extractor": HEAD})[local_part])
