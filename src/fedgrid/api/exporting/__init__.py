"""Curves and tables of a study in the formats of other programs, written by their own libraries; one file a target."""
