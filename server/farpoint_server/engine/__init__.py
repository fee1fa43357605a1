"""One device: its thread, batches, and copies to a GPU and back."""
