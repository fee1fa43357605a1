"""Ray Serve as another way in: the server without ports in replicas, behind Ray's proxies."""
