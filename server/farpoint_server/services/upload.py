"""Handler of SampleLarge: receives the points in chunks, directly into the array to sample."""

import asyncio
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import grpc
import numpy as np

from farpoint.v1 import sampling_pb2
from farpoint_server.codec.sample_request import (
    SampleMessage,
    parse_sample_request,
    read_upload_data,
    upload_size,
)
from farpoint_server.codec.sample_response import sample_response_chunks
from farpoint_server.codec.tensors import RequestLimits, check_message_size
from farpoint_server.codec.wire import length_delimited, read_message
from farpoint_server.codec.wire_limits import limits_of
from farpoint_server.errors import DeadlinePassedError, InvalidRequestError
from farpoint_server.services.call import sample_call
from farpoint_server.services.pipeline import Pipeline
from farpoint_server.transport.admission import Reservation
from farpoint_server.transport.grpc.handlers import Context

# A sender that is silent for this long would hold its memory for nothing, and so would one that
# sends a little now and then: beyond this time a megabyte must have come for every four seconds.
SILENCE_S = 30.0
BYTES_PER_S = 1 << 18


async def handle(pipeline: Pipeline, context: Context) -> bytes:
    """The serialized SampleLargeResponse to the messages of a call.

    Its points are admitted as they arrive, so that a slow sender blocks no other; one that meets
    a full server is refused with what it has sent.
    """
    arrived = time.monotonic()
    head = await _receive_head(context, pipeline.limits)
    check_message_size(head.ByteSize(), pipeline.limits)
    points, size = upload_size(head, pipeline.limits, pipeline.admission.max_bytes)
    pipeline.admission.check_headroom()
    # The client's library keeps what it sends for a retry until it sees this.
    await context.send_initial_metadata(())
    with pipeline.admission.reserve(0, 0) as reservation:
        data = await receive_points(context, points, size, pipeline.limits.clouds, reservation)
        message = SampleMessage(head, data, head.ByteSize())
        request = parse_sample_request(message, pipeline.limits)
        del message, data
        call = sample_call(request, partial(_serialize, arrived))
        del request
        return await pipeline.run(call, context.time_remaining(), is_admitted=True)


def _serialize(arrived: float, *answered: Any) -> bytes:
    field = sampling_pb2.SampleLargeResponse.RESPONSE_FIELD_NUMBER
    return b"".join(length_delimited(field, sample_response_chunks(arrived, *answered)))


async def _receive_head(context: Context, limits: RequestLimits) -> sampling_pb2.SampleRequest:
    """The first message: the request without the data of its points; raises InvalidRequestError."""
    raw = await _receive(context)
    if raw is None:
        raise InvalidRequestError("part", "a request first", "no message")
    expected = sampling_pb2.SampleLargeRequest
    message = read_message(raw, expected, limits_of(expected, limits.clouds))
    kind = message.WhichOneof("part")
    if kind != "request":
        raise InvalidRequestError("part", "a request first", kind or "an empty message")
    return message.request


async def receive_points(
    context: Context,
    points: int,
    size: int,
    clouds: int,
    reservation: Reservation,
    clock: Callable[[], float] = time.monotonic,
) -> memoryview:
    """The data of the points, `size` bytes, which `reservation` counts as they arrive.

    Raises:
        InvalidRequestError: more or less than that arrived, or something else.
        DeadlinePassedError: nothing arrived for a long time, or too little all along.
        OverloadedError: there is no room for what arrived.
    """
    data = np.empty(size, np.uint8)
    filled, admitted, began = 0, 0, clock()
    while (raw := await _receive(context, _patience_s(clock() - began, filled))) is not None:
        points_data = read_upload_data(raw, clouds)
        if points_data is None:
            raise InvalidRequestError("part", "points_data", "something else")
        chunk = np.frombuffer(points_data, np.uint8)
        if filled + len(chunk) > size:
            got = f"{filled + len(chunk)} or more"
            raise InvalidRequestError("points_data", f"{size} bytes in all", got)
        arrived = points * (filled + len(chunk)) // max(size, 1)
        reservation.add(arrived - admitted, len(chunk))
        data[filled : filled + len(chunk)] = chunk
        filled, admitted = filled + len(chunk), arrived
    if filled < size:
        raise InvalidRequestError("points_data", f"{size} bytes in all", filled)
    return data.data


def _patience_s(elapsed_s: float, filled: int) -> float:
    """Seconds to wait for the next message of an upload after these bytes."""
    return min(SILENCE_S, SILENCE_S + filled / BYTES_PER_S - elapsed_s)


async def _receive(context: Context, patience_s: float = SILENCE_S) -> bytes | None:
    """The next message; None after the last."""
    try:
        raw = await asyncio.wait_for(context.read(), patience_s)
    except asyncio.TimeoutError:
        raise DeadlinePassedError(f"too little arrived within {SILENCE_S:g} s") from None
    return None if raw is grpc.aio.EOF else bytes(raw)
