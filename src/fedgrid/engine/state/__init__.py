"""What lasts between rounds."""
