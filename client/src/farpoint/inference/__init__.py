"""Generated code of the Open Inference Protocol v2, which client and server share."""
