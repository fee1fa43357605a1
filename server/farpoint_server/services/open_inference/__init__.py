"""inference.GRPCInferenceService: the Open Inference Protocol v2 with Triton's extensions."""
