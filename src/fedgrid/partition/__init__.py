"""Partitions of a data set into clients, one file a kind of heterogeneity."""
