"""What users call from Python, as `fedgrid.NAME`; the command line is built on it."""
