"""Transfers to a GPU and back: slots with a stream and buffers each, four batches in flight."""
