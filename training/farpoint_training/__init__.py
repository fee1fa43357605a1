"""Self-supervised training of an encoder: `python -m farpoint_training`."""
