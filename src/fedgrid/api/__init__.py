"""What users call from Python: the final models of a cell."""

from fedgrid.api.models import load_model

__all__ = ["load_model"]
