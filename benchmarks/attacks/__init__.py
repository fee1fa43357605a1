"""Attack scenarios against a server: what some callers can do to the others."""
