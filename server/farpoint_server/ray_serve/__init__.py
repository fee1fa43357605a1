"""Ray Serve: the server without ports, in replicas behind Ray's proxies."""
