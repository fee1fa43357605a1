"""`farpoint bench`: what a server sustains at a latency target."""
