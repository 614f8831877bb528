"""A study's page, a paper's page, and what they are made of."""
