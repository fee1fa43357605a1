"""Handler of SampleLarge: receives the points in chunks, straight into the array to sample."""

import asyncio
import time
from functools import partial

import grpc
import numpy as np

from farpoint.v1 import sampling_pb2
from farpoint_server.codec.sample_request import (
    check_message_size,
    check_points,
    parse_sample_request,
)
from farpoint_server.codec.sample_response import serialize_sample_response
from farpoint_server.codec.tensors import data_bytes
from farpoint_server.codec.validation import RequestLimits
from farpoint_server.codec.wire import (
    SampleMessage,
    length_delimited,
    parse,
    read_upload_data,
)
from farpoint_server.errors import DeadlinePassedError, InvalidRequestError
from farpoint_server.services.sample_handler import SampleHandler
from farpoint_server.transport.interceptor import Context

# A sender that is silent for this long would hold its memory for nothing.
SILENCE_S = 30.0


async def handle(handler: SampleHandler, context: Context) -> bytes:
    """The serialized SampleLargeResponse to the messages of a call.

    It is admitted before it is parsed, as its points are received only then.

    Raises:
        ServiceError: the request is wrong, or it cannot be done now.
    """
    arrived = time.monotonic()
    head = await _receive_head(context)
    check_message_size(SampleMessage(head, None, head.ByteSize()), handler.limits)
    size = _points_bytes(head, handler.limits, handler.admission.max_bytes)
    with handler.admission.hold(head.points.shape[0], size):
        message = await _receive_points(context, head, size)
        request = parse_sample_request(message, handler.limits)
        del message
        serialize = partial(serialize_sample_response, arrived)
        chunks = await handler.sample(request, context.time_remaining(), serialize)
    field = sampling_pb2.SampleLargeResponse.RESPONSE_FIELD_NUMBER
    return b"".join(length_delimited(field, chunks))


async def _receive_head(context: Context) -> sampling_pb2.SampleRequest:
    """The first message: the request without the data of its points.

    Raises:
        InvalidRequestError: it is something else.
    """
    raw = await _receive(context)
    if raw is None:
        raise InvalidRequestError("part", "a request first", "no message")
    message = parse(sampling_pb2.SampleLargeRequest.FromString, raw)
    kind = message.WhichOneof("part")
    if kind != "request":
        raise InvalidRequestError("part", "a request first", kind or "an empty message")
    if message.request.points.data:
        got = f"{len(message.request.points.data)} bytes"
        raise InvalidRequestError("request.points.data", "none: points_data has it", got)
    return message.request


def _points_bytes(
    request: sampling_pb2.SampleRequest, limits: RequestLimits, max_bytes: int
) -> int:
    """Bytes that are to come; raises InvalidRequestError if they could never be accepted."""
    check_points(request.points, limits)
    size = data_bytes(request.points, "points")
    if size > max_bytes:
        raise InvalidRequestError("points.shape", f"at most {max_bytes} bytes of points", size)
    return size


async def _receive_points(
    context: Context, request: sampling_pb2.SampleRequest, size: int
) -> SampleMessage:
    """The rest of the messages: `size` bytes of points.

    Raises:
        InvalidRequestError: more or less than that arrived, or something else.
        DeadlinePassedError: nothing arrived for a long time.
    """
    data = np.empty(size, np.uint8)
    filled = 0
    while (raw := await _receive(context)) is not None:
        points_data = parse(read_upload_data, raw)
        if points_data is None:
            raise InvalidRequestError("part", "points_data", "something else")
        chunk = np.frombuffer(points_data, np.uint8)
        if filled + len(chunk) > size:
            got = f"{filled + len(chunk)} or more"
            raise InvalidRequestError("points_data", f"{size} bytes in all", got)
        data[filled : filled + len(chunk)] = chunk
        filled += len(chunk)
    if filled < size:
        raise InvalidRequestError("points_data", f"{size} bytes in all", filled)
    return SampleMessage(request, data.data, request.ByteSize())


async def _receive(context: Context) -> bytes | None:
    """The next message; None after the last one."""
    try:
        raw = await asyncio.wait_for(context.read(), SILENCE_S)
    except asyncio.TimeoutError:
        raise DeadlinePassedError(f"nothing arrived for {SILENCE_S:g} s") from None
    return None if raw is grpc.aio.EOF else bytes(raw)
