"""One invocation of the workflow: its lock, its code, its packs, and the states of its cells. Never imports torch."""
