"""From a study to cells: what is to be computed, under which key, and where it is kept. Never imports torch."""
