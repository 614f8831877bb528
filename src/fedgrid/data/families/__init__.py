"""Base classes of data sets that are loaded alike."""
