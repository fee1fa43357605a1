"""Benchmarks of the CUDA kernels; needs a GPU."""
