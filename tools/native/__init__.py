"""Build of the compiled ops: two libraries of kernels and a binding for each torch."""
