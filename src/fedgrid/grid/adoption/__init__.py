"""Results under earlier code: which planned cells have some, and which are to be checked before all are adopted."""
