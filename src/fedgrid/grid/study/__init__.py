"""YAML becomes one typed study."""
