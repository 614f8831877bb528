"""Where images come from: Parquet files at hand, torchvision's data sets, archives and folders of pictures."""
