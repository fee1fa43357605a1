"""Limits on open calls, on turns to receive and on responses that are not read, by caller."""
