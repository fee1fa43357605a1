"""Methods of every kind as coroutine functions that read for themselves."""

import grpc
import pytest
from google.protobuf.message import DecodeError
from tests.support.rpc import CallContext

from farpoint.inference import open_inference_pb2
from farpoint_server.codec.wire import SPLIT_BYTES
from farpoint_server.errors import DeadlinePassedError, InvalidRequestError
from farpoint_server.transport.grpc import handlers
from farpoint_server.transport.grpc.handlers import adapt, parse_error, unary_methods


async def first_of(request, context):  # noqa: ARG001
    return request


async def each_of(requests, context):  # noqa: ARG001
    async for request in requests:
        yield request


async def twice(request, context):  # noqa: ARG001
    yield request
    yield request


def make(kind, behavior, deserialize=None):
    return getattr(grpc, f"{kind}_rpc_method_handler")(behavior, deserialize)


def unguarded(behavior):
    return behavior


async def test_what_a_method_returns_or_yields_arrives():
    adapted = adapt(make("unary_unary", first_of), unguarded)
    assert await adapted.stream_unary(None, CallContext(b"one", b"two")) == b"one"
    context = CallContext(b"one")
    await adapt(make("unary_stream", twice), unguarded).stream_stream(None, context)
    assert context.written == [b"one", b"one"]
    context = CallContext()

    async def two():
        yield b"one"
        yield b"two"

    await adapt(make("stream_stream", each_of), unguarded).stream_stream(two(), context)
    assert context.written == [b"one", b"two"]


async def test_a_call_without_a_message_is_wrong():
    context = CallContext()
    with pytest.raises(InvalidRequestError, match="expected one message, got none"):
        await adapt(make("unary_unary", first_of), unguarded).stream_unary(None, context)
    assert context.has_metadata


async def test_a_message_that_does_not_come_is_refused(monkeypatch):
    monkeypatch.setattr(handlers, "MESSAGE_S", 0.01)
    with pytest.raises(DeadlinePassedError, match="did not arrive in time"):
        await adapt(make("unary_unary", first_of), unguarded).stream_unary(
            None, CallContext(silent=True)
        )


async def test_bytes_that_do_not_parse_are_the_callers_mistake():
    def deserialize(data):
        if data == b"bad":
            raise DecodeError
        return data.decode()

    adapted = adapt(make("unary_unary", first_of, deserialize), unguarded)
    assert adapted.request_deserializer(b"good") == "good"
    wrong = adapted.request_deserializer(b"bad")
    with pytest.raises(InvalidRequestError, match="a serialized message, got 3 other bytes"):
        await adapted.stream_unary(None, CallContext(wrong))
    assert str(wrong) == str(parse_error(b"bad"))
    assert adapt(make("unary_unary", first_of), unguarded).request_deserializer is None


async def test_a_message_of_too_many_parts_is_refused_before_it_is_parsed():
    service = open_inference_pb2.DESCRIPTOR.services_by_name["GRPCInferenceService"]
    made = unary_methods(service, {"RepositoryModelLoad": lambda request: request})
    adapted = adapt(made["RepositoryModelLoad"], unguarded)
    parameters = b"\x1a\x02\x0a\x00" * SPLIT_BYTES
    read = adapted.request_deserializer(parameters)
    assert isinstance(read, InvalidRequestError)
    assert read.field == "parameters"
    with pytest.raises(InvalidRequestError, match="at most 64"):
        await adapted.stream_unary(None, CallContext(read))
