"""How a call gets in and who may make it; knows gRPC, and nothing of sampling."""
