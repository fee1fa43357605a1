"""Benchmarks of farpoint-server over gRPC; needs Linux (/proc, SIGSTOP)."""
