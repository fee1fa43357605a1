"""Timing, point sets and machine facts that all benchmarks share."""
