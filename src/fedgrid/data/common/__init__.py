"""What data sets, partitions and the engine share: images in memory, and their columns in Parquet files."""
