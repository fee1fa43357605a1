"""Each wrong request is answered INVALID_ARGUMENT with the field, and the server goes on."""

from collections.abc import Callable

import grpc
import numpy as np
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc
from tests.e2e.conftest import MESSAGE_BYTES
from tests.support.messages import details, sample_request, tensor

from farpoint.v1 import sampling_pb2 as pb
from farpoint.v1 import tensor_pb2

CLOUD = np.arange(30, dtype=np.float32).reshape(10, 3)
NAN = CLOUD.copy()
NAN[[4, 6], 1] = np.nan, np.inf
FAR = np.where(np.arange(30).reshape(10, 3) == 16, 1e300, 0)


def change(**fields: object) -> Callable[[], pb.SampleRequest]:
    """A good request with fields of the request replaced."""

    def make() -> pb.SampleRequest:
        request = sample_request(CLOUD, 2, lengths=[4, 6])
        for field in fields:
            request.ClearField(field)
        request.MergeFrom(pb.SampleRequest(**fields))
        return request

    return make


def points(shape: list[int], data: bytes, data_type: int = 1) -> tensor_pb2.Tensor:
    return tensor_pb2.Tensor(data_type=data_type, shape=shape, data=data)


def attribute(values: tensor_pb2.Tensor, name: str = "a") -> tensor_pb2.Attribute:
    return tensor_pb2.Attribute(name=name, values=values)


TEN = tensor(CLOUD)
BAD = {
    "no points": (change(points=tensor_pb2.Tensor()), "points.data_type", "0|UNSPECIFIED"),
    "unknown type": (change(points=points([10, 3], bytes(120), 99)), "points.data_type", "99"),
    "integers": (change(points=points([10, 3], bytes(120), 7)), "points.data_type", "INT32"),
    "short data": (change(points=points([10, 3], bytes(119))), "points.data", "119 bytes"),
    "long data": (change(points=points([10, 3], bytes(121))), "points.data", "120 bytes for"),
    "flat shape": (change(points=points([30], bytes(120))), "points.shape", "(30,)"),
    "four columns": (change(points=points([10, 4], bytes(160))), "points.shape", "(10, 4)"),
    "empty cloud": (change(points=points([0, 3], b""), lengths=[]), "points.shape", "(0, 3)"),
    "negative shape": (change(points=points([-10, -3], bytes(120))), "points.shape", "-10"),
    "negative rows": (change(points=points([-1, 3], b"")), "points.shape", "(-1, 3)"),
    "overflowing rows": (change(points=points([2**62, 3], b"")), "points.shape", str(2**62)),
    "many dimensions": (change(points=points([1] * 9999, b"1234")), "points.shape", "(P, 3)"),
    "lengths too short": (change(lengths=[4, 5]), "lengths", "a sum of 9"),
    "lengths too long": (change(lengths=[9, 9]), "lengths", "a sum of 18"),
    "lengths overflow": (change(lengths=[2**63 - 1, 2**63 - 1]), "lengths[0]", "1 to 10"),
    "negative length": (change(lengths=[11, -1]), "lengths[0]", "11"),
    "cloud of no points": (change(lengths=[10, 0]), "lengths[1]", "got 0"),
    "no sample count": (change(sample_counts=[]), "sample_counts", "0 values"),
    "three sample counts": (change(sample_counts=[1, 1, 1]), "sample_counts", "3 values"),
    "zero samples": (change(sample_counts=[0]), "sample_counts[0]", "got 0"),
    "negative samples": (change(sample_counts=[1, -5]), "sample_counts[1]", "got -5"),
    "more samples than points": (change(sample_counts=[4, 7]), "sample_counts[1]", "1 to 6"),
    "one count for all": (
        change(sample_counts=[5], lengths=[6, 4]),
        "sample_counts[0]",
        "the points of cloud 1",
    ),
    "sample count overflow": (change(sample_counts=[2**63 - 1]), "sample_counts[0]", "1 to 4"),
    "start beyond": (change(start_indices=[0, 6]), "start_indices[1]", "0 to 5"),
    "start negative": (change(start_indices=[-1]), "start_indices[0]", "got -1"),
    "three starts": (change(start_indices=[0, 0, 0]), "start_indices", "3 values"),
    "unknown method": (change(method=77), "method", "SAMPLING_METHOD_POISSON_DISK, got 77"),
    "unknown policy": (change(nonfinite_policy=77), "nonfinite_policy", "got 77"),
    "nan": (
        change(points=tensor(NAN)),
        "points.data",
        "2 rows with NaN or infinity, the first at row 0 of cloud 1: (12.0, nan, 14.0)",
    ),
    "beyond float32": (change(points=tensor(FAR)), "points.data", "1 rows"),
    "too few finite": (
        change(points=tensor(NAN), nonfinite_policy=2, sample_counts=[4, 5]),
        "sample_counts[1]",
        "1 to 4, the finite points of cloud 1",
    ),
    "no finite point": (
        change(points=tensor(NAN * np.nan), nonfinite_policy=2),
        "sample_counts[0]",
        "the finite points of cloud 0",
    ),
    "attribute rows": (
        change(attributes=[attribute(tensor(CLOUD[:9]))]),
        "attributes[0].values.shape",
        "(10, ...)",
    ),
    "attribute scalar": (
        change(attributes=[attribute(points([], bytes(4)))]),
        "attributes[0].values.shape",
        "got ()",
    ),
    "attribute of negative size": (
        change(attributes=[attribute(points([10, -1, -1], bytes(40)))]),
        "attributes[0].values.shape",
        "no negative size",
    ),
    "attribute type": (
        change(attributes=[attribute(TEN), attribute(points([10], bytes(40), 0), "b")]),
        "attributes[1].values.data_type",
        "UNSPECIFIED",
    ),
    "attribute data": (
        change(attributes=[attribute(points([10, 2**62, 2**62], b""))]),
        "attributes[0].values.data",
        "0 bytes",
    ),
    "attribute without name": (
        change(attributes=[attribute(TEN, "")]),
        "attributes[0].name",
        "''",
    ),
    "attribute of many dimensions": (
        change(attributes=[attribute(points([10, *[2**62] * 300], b""))]),
        "attributes[0].values.shape",
        "at most 32 dimensions, got 301",
    ),
    "attribute of a long name": (
        change(attributes=[attribute(TEN, "x" * 257)]),
        "attributes[0].name",
        "at most 256 characters, got 257",
    ),
    "many attributes": (
        change(attributes=[attribute(points([10, 0], b""), str(i)) for i in range(257)]),
        "attributes",
        "at most 256, got 257",
    ),
    "two attributes of a name": (
        change(attributes=[attribute(TEN), attribute(TEN)]),
        "attributes[1].name",
        "'a'",
    ),
    "message over the limit": (
        change(points=points([10, 3], bytes(MESSAGE_BYTES))),
        "points.data",
        f"at most {MESSAGE_BYTES} bytes",
    ),
}


@pytest.mark.parametrize("name", BAD)
def test_the_field_is_named_and_the_next_request_is_served(stub, name):
    make, field, text = BAD[name]
    with pytest.raises(grpc.RpcError) as caught:
        stub.Sample(make())
    assert caught.value.code() is grpc.StatusCode.INVALID_ARGUMENT
    (bad_request,) = details(caught.value)
    (violation,) = bad_request.field_violations
    assert violation.field == field
    assert any(part in violation.description for part in text.split("|"))
    assert caught.value.details() == f"{field}: {violation.description}"
    assert len(stub.Sample(sample_request(CLOUD, 2)).indices.data) == 8


CALLS = {
    "grpc.health.v1.Health/Check": "unary_unary",
    "grpc.health.v1.Health/Watch": "unary_stream",
    "grpc.reflection.v1.ServerReflection/ServerReflectionInfo": "stream_stream",
    "grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo": "stream_stream",
}


@pytest.mark.parametrize("rpc", CALLS)
def test_bytes_that_are_no_message_are_invalid_at_health_and_reflection(channel, server, rpc):
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


def test_a_bad_request_is_logged_once_with_the_id_that_the_caller_sent(stub, server):
    metadata = (("x-request-id", "a-bad-one"),)
    with pytest.raises(grpc.RpcError) as caught:
        stub.Sample(change(sample_counts=[0])(), metadata=metadata)
    assert dict(caught.value.trailing_metadata())["x-request-id"] == "a-bad-one"
    server.wait_for(lambda line: line.get("request_id") == "a-bad-one")
    lines = [line for line in server.log if line.get("request_id") == "a-bad-one"]
    assert [(line["status"], line["error"][:16]) for line in lines] == [
        ("INVALID_ARGUMENT", "sample_counts[0]")
    ]
