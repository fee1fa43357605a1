"""Soak test of the server: a mixed load with faults, every answer checked."""
