"""Attack scenarios against a server in a process of its own: what one caller can do to the others."""
