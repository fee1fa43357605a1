"""Benchmarks of farpoint_ops and the encoder on the CPU."""
