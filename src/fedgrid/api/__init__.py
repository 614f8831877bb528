"""What users call from Python, as `fedgrid.NAME`; the command line stands on it."""
