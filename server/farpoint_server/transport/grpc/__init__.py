"""gRPC: the server, its interceptors, and the services that gRPC itself defines."""
