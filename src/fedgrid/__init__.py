"""fedgrid: a cached, reproducible benchmark pipeline for personalised federated learning."""

__version__ = "0.2.0"
