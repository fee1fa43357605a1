"""Compute in another process: arrays pass through shared memory, records over a Unix socket."""
