"""One process each: a data set, a partition, a cell, a pack of cells, and the warm worker that starts them quickly."""
