"""How many nodes a load needs: the server's own scheduler on a simulated clock and processor."""
