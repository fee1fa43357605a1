"""Memory of callers on the same machine, read instead of received.

A caller hands over a memory object (memfd) on a Unix socket of its own and gets a name for it,
which requests then refer to. It has no name outside of the two processes, and the server lets go of
it when that connection ends: the kernel closes it for a caller that is killed.
"""
