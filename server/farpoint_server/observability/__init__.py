"""Structured logs and Prometheus metrics, and their HTTP routes."""
