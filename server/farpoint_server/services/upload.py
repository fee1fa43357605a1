"""Receives a request that comes in pieces, straight into the memory that it is sampled from."""

import asyncio

import grpc
import numpy as np
from google.protobuf.message import DecodeError

from farpoint.v1 import sampling_pb2
from farpoint_server.codec.sample_request import Limits, check_points
from farpoint_server.codec.tensors import data_size
from farpoint_server.codec.wire import Buffer, SampleMessage, read_points_data
from farpoint_server.errors import DeadlinePassedError, InvalidRequestError
from farpoint_server.transport.interceptor import Context, parse_error

# A sender that is silent for this long would hold its memory for nothing.
SILENCE_S = 30.0


async def read_head(context: Context) -> sampling_pb2.SampleRequest:
    """The first message of a SampleLarge: the request without the data of its points.

    Raises:
        InvalidRequestError: it is something else.
    """
    raw = await read(context)
    if raw is None:
        raise InvalidRequestError("part", "a request first", "no message")
    try:
        message = sampling_pb2.SampleLargeRequest.FromString(raw)
    except DecodeError as error:
        raise parse_error(raw) from error
    kind = message.WhichOneof("part")
    if kind != "request":
        raise InvalidRequestError("part", "a request first", kind or "an empty message")
    if message.request.points.data:
        got = f"{len(message.request.points.data)} bytes"
        raise InvalidRequestError("request.points.data", "none: points_data has it", got)
    return message.request


def points_size(request: sampling_pb2.SampleRequest, limits: Limits, max_bytes: int) -> int:
    """Bytes that are to come; raises InvalidRequestError if they could never be accepted."""
    check_points(request.points, limits)
    size = data_size(request.points, "points")
    if size > max_bytes:
        raise InvalidRequestError("points.shape", f"at most {max_bytes} bytes of points", size)
    return size


async def read_body(
    context: Context, request: sampling_pb2.SampleRequest, size: int
) -> SampleMessage:
    """The rest of the messages: `size` bytes of points.

    Raises:
        InvalidRequestError: more or less than that arrived, or something else.
        DeadlinePassedError: nothing arrived for a long time.
    """
    data = np.empty(size, np.uint8)
    filled = 0
    while (raw := await read(context)) is not None:
        piece = np.frombuffer(_piece(raw), np.uint8)
        if filled + len(piece) > size:
            got = f"{filled + len(piece)} or more"
            raise InvalidRequestError("points_data", f"{size} bytes in all", got)
        data[filled : filled + len(piece)] = piece
        filled += len(piece)
    if filled < size:
        raise InvalidRequestError("points_data", f"{size} bytes in all", filled)
    return SampleMessage(request, data.data, request.ByteSize())


async def read(context: Context) -> bytes | None:
    """The next message; None after the last one."""
    try:
        raw = await asyncio.wait_for(context.read(), SILENCE_S)
    except asyncio.TimeoutError:
        raise DeadlinePassedError(f"nothing arrived for {SILENCE_S:g} s") from None
    return None if raw is grpc.aio.EOF else bytes(raw)


def _piece(raw: bytes) -> Buffer:
    try:
        data = read_points_data(raw)
    except DecodeError as error:
        raise parse_error(raw) from error
    if data is None:
        raise InvalidRequestError("part", "points_data", "something else")
    return data
