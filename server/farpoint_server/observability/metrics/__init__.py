"""Prometheus metrics: what is counted while calls run, what is read at a scrape, and the scrape."""
