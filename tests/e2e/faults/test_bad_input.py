"""A wrong request is answered INVALID_ARGUMENT with the field, and the server goes on.

Every bound of every field is in tests/server/codec.
"""

import grpc
import numpy as np
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc
from tests.e2e.conftest import MESSAGE_BYTES
from tests.support.messages import details, sample_request, tensor

from farpoint.v1 import sampling_pb2 as pb

CLOUD = np.arange(30, dtype=np.float32).reshape(10, 3)
NAN = CLOUD.copy()
NAN[[4, 6], 1] = np.nan, np.inf


LARGE = tensor(np.zeros((MESSAGE_BYTES // 12 + 1, 3), np.float32))


@pytest.mark.parametrize(
    ("wrong", "field", "text"),
    [
        ({"lengths": [2**63 - 1, 2**63 - 1]}, "lengths[0]", "1 to 10"),
        ({"method": 77}, "method", "SAMPLING_METHOD_POISSON_DISK, got 77"),
        (
            {"points": tensor(NAN)},
            "points.data",
            "float32, the first at row 0 of cloud 1: (12.0, nan, 14.0)",
        ),
        ({"points": LARGE}, "request", f"at most {MESSAGE_BYTES} bytes"),
    ],
    ids=["lengths overflow", "unknown method", "nan", "message over the limit"],
)
def test_the_field_is_named_and_the_next_request_is_served(stub, wrong, field, text):
    fields = {"points": tensor(CLOUD), "sample_counts": [2], "lengths": [4, 6], **wrong}
    with pytest.raises(grpc.RpcError) as caught:
        stub.Sample(pb.SampleRequest(**fields))
    assert caught.value.code() is grpc.StatusCode.INVALID_ARGUMENT
    (bad_request,) = details(caught.value)
    (violation,) = bad_request.field_violations
    assert violation.field == field
    assert text in violation.description
    assert caught.value.details() == f"{field}: {violation.description}"
    assert len(stub.Sample(sample_request(CLOUD, 2)).indices.data) == 8


CALLS = {
    "grpc.health.v1.Health/Check": "unary_unary",
    "grpc.health.v1.Health/Watch": "unary_stream",
    "grpc.reflection.v1.ServerReflection/ServerReflectionInfo": "stream_stream",
    "grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo": "stream_stream",
}


@pytest.mark.parametrize("rpc", CALLS)
def test_bytes_that_are_not_a_message_are_invalid_at_health_and_reflection(channel, server, rpc):
    kind = CALLS[rpc]
    call = getattr(channel, kind)(f"/{rpc}")
    with pytest.raises(grpc.RpcError) as caught:
        list(call(b"\xff\xff" if kind.startswith("unary") else iter([b"\xff\xff"])))
    assert caught.value.code() is grpc.StatusCode.INVALID_ARGUMENT
    assert caught.value.details() == "request: expected a serialized message, got 2 other bytes"
    assert not [line for line in server.log if line["level"] == "error"]


def test_a_service_that_health_does_not_know_is_quoted_in_part(channel):
    asked = health_pb2.HealthCheckRequest(service="x" * 100_000)
    with pytest.raises(grpc.RpcError) as caught:
        health_pb2_grpc.HealthStub(channel).Check(asked)
    assert caught.value.code() is grpc.StatusCode.NOT_FOUND
    assert len(caught.value.details()) < 200


def test_a_message_beyond_twice_the_limit_is_not_received(stub):
    with pytest.raises(grpc.RpcError) as caught:
        stub.Sample(sample_request(np.zeros((MESSAGE_BYTES // 6 + 9, 3), np.float32), 1))
    assert caught.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
    assert str(2 * MESSAGE_BYTES) in caught.value.details()
