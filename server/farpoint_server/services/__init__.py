"""gRPC servicers, and the pipeline of their requests. What fails raises ServiceError."""
