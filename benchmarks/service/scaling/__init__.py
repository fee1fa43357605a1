"""Load benchmark of several server processes beside one, with the callers' CPU taken out."""
