"""Captions, footnotes and headline sentences."""
