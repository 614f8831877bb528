"""Cells of other people's archives and stores, put into one store with where they come from."""
