"""Cells become tidy numbers: means, standard deviations, tests. All statistics are here."""
