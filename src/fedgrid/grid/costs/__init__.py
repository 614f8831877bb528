"""What is left to do, in seconds and bytes."""
