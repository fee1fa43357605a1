"""Benchmark of a served program beside the same program in other model servers; needs Linux."""
