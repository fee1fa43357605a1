"""Failures: classes, fields, request ids, and answers that were damaged on the way."""

import pickle
import threading
from http.server import HTTPServer, SimpleHTTPRequestHandler

import grpc
import numpy as np
import pytest
from google.protobuf import any_pb2, duration_pb2
from google.rpc import error_details_pb2, status_pb2
from tests.client.conftest import serving

import farpoint
from farpoint import errors
from farpoint.v1 import sampling_pb2 as pb

CLOUD = np.zeros((10, 3), np.float32)
Code = grpc.StatusCode

KINDS = {
    Code.INVALID_ARGUMENT: farpoint.InvalidArgumentError,
    Code.OUT_OF_RANGE: farpoint.InvalidArgumentError,
    Code.UNAUTHENTICATED: farpoint.UnauthenticatedError,
    Code.PERMISSION_DENIED: farpoint.PermissionDeniedError,
    Code.NOT_FOUND: farpoint.NotFoundError,
    Code.FAILED_PRECONDITION: farpoint.FailedPreconditionError,
    Code.UNIMPLEMENTED: farpoint.UnimplementedError,
    Code.RESOURCE_EXHAUSTED: farpoint.ResourceExhaustedError,
    Code.DEADLINE_EXCEEDED: farpoint.DeadlineExceededError,
    Code.INTERNAL: farpoint.InternalError,
    Code.UNKNOWN: farpoint.InternalError,
    Code.DATA_LOSS: farpoint.DataLossError,
}


def details(*messages):
    packed = [any_pb2.Any() for _ in messages]
    for box, message in zip(packed, messages, strict=True):
        box.Pack(message)
    return status_pb2.Status(code=3, message="m", details=packed).SerializeToString()


@pytest.mark.parametrize("code", KINDS, ids=lambda code: code.name)
def test_status_and_exception(client, server, code):
    server.fail(code, "what went wrong")
    with pytest.raises(KINDS[code], match="what went wrong") as raised:
        client.sample(CLOUD, 1)
    assert type(raised.value) is KINDS[code]
    assert isinstance(raised.value.__cause__, grpc.RpcError)
    assert raised.value.request_id == server.metadata[0]["x-request-id"]
    assert raised.value.request_id in str(raised.value)
    assert raised.value.message.startswith("what went wrong")


async def test_the_field_of_a_bad_request(client, server):
    violation = error_details_pb2.BadRequest.FieldViolation(field="points.data", description="d")
    bad_request = error_details_pb2.BadRequest(field_violations=[violation])
    other = error_details_pb2.DebugInfo(detail="unrelated")
    for _ in range(2):
        server.fail(Code.INVALID_ARGUMENT, details=details(other, bad_request))
    with pytest.raises(farpoint.InvalidArgumentError) as raised:
        client.sample(CLOUD, 1)
    assert raised.value.field == "points.data"
    async with farpoint.AsyncClient(server.target) as twin:
        with pytest.raises(farpoint.InvalidArgumentError) as raised:
            await twin.sample(CLOUD, 1)
    assert raised.value.field == "points.data"
    assert raised.value.request_id == server.metadata[1]["x-request-id"]
    assert isinstance(raised.value.__cause__, grpc.RpcError)


@pytest.mark.parametrize(
    ("delay", "seconds"),
    [({"nanos": 250_000_000}, 0.25), ({"seconds": 1 << 62}, float(1 << 62)), ({"seconds": -5}, 0)],
)
def test_when_to_try_again(client, server, delay, seconds):
    retry = error_details_pb2.RetryInfo(retry_delay=duration_pb2.Duration(**delay))
    server.fail(Code.RESOURCE_EXHAUSTED, details=details(retry))
    with pytest.raises(farpoint.ResourceExhaustedError) as raised:
        client.sample(CLOUD, 1)
    assert raised.value.retry_after_s == seconds


@pytest.mark.parametrize("packed", [b"", b"\xff not a Status"])
def test_missing_or_damaged_details_lose_nothing_else(client, server, packed):
    for code in (Code.INVALID_ARGUMENT, Code.RESOURCE_EXHAUSTED):
        server.fail(code, "what went wrong", packed)
    with pytest.raises(farpoint.InvalidArgumentError, match="what went wrong") as invalid:
        client.sample(CLOUD, 1)
    with pytest.raises(farpoint.ResourceExhaustedError) as full:
        client.sample(CLOUD, 1)
    assert invalid.value.field is None
    assert full.value.retry_after_s is None


def test_a_deadline_names_the_wait(server):
    server.hold = threading.Event()
    with (
        farpoint.Client(server.target, timeout=1) as client,
        pytest.raises(farpoint.DeadlineExceededError, match=r"after 1.* s, the timeout is 1 s"),
    ):
        client.sample(CLOUD, 1)


def reason_of_no_connection(target: str, **options: object) -> str:
    with (
        farpoint.Client(target, retry_budget=0, **options) as client,
        pytest.raises(farpoint.UnavailableError) as caught,
    ):
        client.server_info(timeout=30)
    return caught.value.message


def test_no_server_is_said_to_be_missing_where_something_answers(server, tmp_path):
    with HTTPServer(("127.0.0.1", 0), SimpleHTTPRequestHandler) as web:
        threading.Thread(target=web.serve_forever, daemon=True).start()
        http = f"127.0.0.1:{web.server_port}"
        assert f"no connection to {http}, which took the" in reason_of_no_connection(http)
        web.shutdown()
    with_tls = reason_of_no_connection(server.target, tls=True)
    assert with_tls.startswith(f"no connection to {server.target} (")
    assert "handshake failed" in with_tls
    unknown = reason_of_no_connection("gpu.invalid:1")
    assert unknown.startswith("no connection to gpu.invalid:1 (errors resolving")
    for absent in ("127.0.0.1:1", f"unix:{tmp_path}/none.sock"):
        assert reason_of_no_connection(absent).startswith(f"no server answers at {absent}: `make")


def test_a_method_that_is_not_served_is_named_with_the_target():
    with (
        serving() as target,
        farpoint.Client(target) as client,
        pytest.raises(farpoint.UnimplementedError, match=rf"\(at {target}\)"),
    ):
        client.server_info()


def test_builtin_kin():
    assert issubclass(farpoint.InvalidArgumentError, ValueError)
    assert issubclass(farpoint.CloudFileError, ValueError)
    assert issubclass(farpoint.DeadlineExceededError, TimeoutError)
    assert issubclass(farpoint.UnavailableError, ConnectionError)


def test_every_exception_survives_a_process_boundary():
    for error in (
        errors.InvalidArgumentError("m", field="points", request_id="r"),
        errors.ResourceExhaustedError("m", retry_after_s=2.0, request_id="r"),
        errors.UnavailableError("m", request_id="r"),
    ):
        copy = pickle.loads(pickle.dumps(error))
        assert (type(copy), str(copy), vars(copy)) == (type(error), str(error), vars(error))


CHECKED = np.arange(30, dtype=np.float32).reshape(10, 3)


LOCAL = {"credentials": grpc.local_channel_credentials()}


@pytest.mark.parametrize(
    ("options", "asked"),
    [({}, True), ({"checksums": False}, False), (LOCAL, False)],
    ids=["plain text", "declined", "a connection that finds damage"],
)
def test_checksums_are_requested_where_nothing_else_finds_damage(server, options, asked):
    with farpoint.Client(server.target, **options) as client:
        client.sample(CHECKED, 2)
        list(client.sample_stream([CHECKED], 2))
    assert [request.return_checksums for request in server.requests] == [asked] * 2


def test_an_answer_without_the_checksums_that_were_requested_is_an_error(server, client):
    client.sample(CHECKED, 2)
    server.answer = server.sampled(server.requests[0])
    strict = pickle.loads(pickle.dumps(farpoint.Client(server.target, checksums=True)))
    with strict, pytest.raises(farpoint.DataLossError, match="without the checksums"):
        strict.sample(CHECKED, 2)


def test_a_checksum_that_does_not_match_is_an_error_also_where_none_was_requested(server, client):
    client.sample(CHECKED, 2)
    server.answer = pb.SampleResponse()
    server.answer.CopyFrom(server.sampled(server.requests[0]))
    server.answer.distances.crc32c = 1
    with pytest.raises(farpoint.DataLossError, match="checksum of 8 bytes does not match"):
        client.sample(CHECKED, 2)
