"""Messages of the Open Inference Protocol v2, over gRPC and REST."""
