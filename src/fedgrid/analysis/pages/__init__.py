"""The page of a study, the page of a paper, and their parts."""
