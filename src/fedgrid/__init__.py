"""fedgrid: a cached, reproducible benchmark pipeline for personalised federated learning."""

__version__ = "0.2.0"


def __getattr__(name: str) -> object:
    """What users call from Python: `load_model`. It needs torch, so that it is imported when it is first used."""
    from importlib import import_module

    if name == "load_model":  # by its name, or every module of the package would import it
        return import_module("fedgrid.api").load_model
    raise AttributeError(f"module 'fedgrid' has no attribute '{name}'")
