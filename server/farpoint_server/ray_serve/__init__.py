"""Ray Serve as the way in: the server's handlers in replicas, behind Ray's gRPC proxies."""
