"""gRPC servicers, and the pipeline of their requests; failures raise ServiceError."""
