"""Transfers to a GPU and back: pinned buffers, three streams, two batches in flight."""
