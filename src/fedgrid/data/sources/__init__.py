"""Sources of images: local Parquet files, torchvision's data sets, archives and folders of pictures."""
