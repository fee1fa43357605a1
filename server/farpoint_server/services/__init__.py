"""gRPC servicers, one per service, and the request handlers that they delegate to."""
