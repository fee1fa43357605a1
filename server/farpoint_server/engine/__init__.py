"""One device: batches are launched on it, and copied to it and back."""
