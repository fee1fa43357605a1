"""The Open Inference Protocol v2: the model `fps` for clients that know nothing of Farpoint."""
