"""One file a table."""
