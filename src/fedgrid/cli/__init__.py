"""The command ``fedgrid``: parse, call, print."""
