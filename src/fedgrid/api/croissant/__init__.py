"""Descriptions of data sets in Croissant (https://docs.mlcommons.org/croissant), as JSON-LD."""
