"""Logs, metrics and the HTTP port that shows them."""
