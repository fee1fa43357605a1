"""gRPC and HTTP servers, interceptors, TLS and tokens; independent of sampling."""
