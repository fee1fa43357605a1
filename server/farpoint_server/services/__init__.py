"""One servicer per gRPC service, and the handler that it delegates to."""
