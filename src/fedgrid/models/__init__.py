"""Models, one file each: every model is an extractor φ and a head π."""
