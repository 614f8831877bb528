"""FedCRL (Huang et al., arXiv 2404.17916, 2024, Algorithm 1), whose equations are those of FedCoSR (Eqs. 3–15)."""

from references.fedcosr import state as state
from references.fedcosr import used as used

SETTINGS = (
    {},
    {"alpha": 2.0, "gamma": 3.0, "temperature": 0.5, "lost_uploads": 0.4},
    {"separate": False, "contrast": False},
    {"local_aggregation": False},
)
