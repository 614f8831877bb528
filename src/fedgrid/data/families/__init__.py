"""Data sets of which several come the same way."""
