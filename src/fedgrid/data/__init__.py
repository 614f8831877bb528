"""Data sets, one file each. The only room of the house that may touch the network."""
