"""What several figures share: looks, lines, panels, and what they read."""
