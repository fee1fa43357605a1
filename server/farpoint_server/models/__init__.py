"""Models that are loaded, and running them."""
