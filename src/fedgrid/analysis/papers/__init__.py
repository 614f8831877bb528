"""Printed numbers beside measured ones: agreement, claims and their verdicts."""
