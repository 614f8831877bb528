"""Mathematics shared by methods."""
