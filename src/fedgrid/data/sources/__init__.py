"""Where images come from: Parquet files at hand, or torchvision's data sets."""
