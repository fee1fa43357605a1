"""Benchmark of a served program and the same program in other model servers; needs Linux."""
