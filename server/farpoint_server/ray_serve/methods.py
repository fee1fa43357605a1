"""The RPCs that Ray's gRPC proxies take and a replica answers."""

from collections.abc import Sequence

from google.protobuf.descriptor import MethodDescriptor, ServiceDescriptor
from grpc_health.v1 import health_pb2  # type: ignore[import-untyped]

from farpoint.inference import open_inference_pb2
from farpoint.v1 import sampling_pb2

# A watch would keep a replica from ending; only one replica would know a registered region.
LEFT_OUT = ("Watch", "Register", "Unregister")
SERVICES: Sequence[ServiceDescriptor] = (
    sampling_pb2.DESCRIPTOR.services_by_name["SamplingService"],
    open_inference_pb2.DESCRIPTOR.services_by_name["GRPCInferenceService"],
    health_pb2.DESCRIPTOR.services_by_name["Health"],
)
METHODS: Sequence[MethodDescriptor] = [
    method
    for service in SERVICES
    for method in service.methods
    if not method.name.endswith(LEFT_OUT)
]
