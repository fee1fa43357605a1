"""gRPC servers, interceptors, TLS and tokens: how a call gets in; knows nothing of sampling."""
