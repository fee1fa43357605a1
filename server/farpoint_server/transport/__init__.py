"""How a call arrives, over gRPC or HTTP, and who may make it."""
