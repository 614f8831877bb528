"""What several kinds of partition share, and what happens to partitions whatever their kind."""
