"""What several tables share: grids of text, and rows by column."""
