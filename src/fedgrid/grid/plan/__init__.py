"""A study becomes cells with keys, and the plan of a run."""
