"""Structured logs, Prometheus metrics, traces, and the HTTP port that shows them."""
