"""fedgrid: a cached, reproducible benchmark pipeline for personalised federated learning."""

__version__ = "0.1.0"
