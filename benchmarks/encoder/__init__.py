"""What the shipped features are worth: `python -m benchmarks.encoder`."""
