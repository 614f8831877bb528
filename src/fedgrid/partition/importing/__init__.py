"""Partitions that other programs wrote: one file a form, and what matches their rows with the images of a data set."""
