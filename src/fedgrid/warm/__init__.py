"""A warm worker: importing torch takes seconds, so one server imports it once and forks a process for every cell.

The client stands where the plain process would stand, and becomes it where no server listens: one job is one process,
with its own exit code, output and memory, either way.
"""
