"""Requests serialized by hand around a payload, which is copied only once, into gRPC's buffer.

protobuf takes payloads as `bytes` alone, and copies them into a message, out of it into another one
around it, and once more when it is serialized.
"""

import operator
from collections.abc import Sequence
from typing import Any

from farpoint.v1 import packed_cloud_pb2
from farpoint.v1 import sampling_pb2 as pb

Chunk = bytes | memoryview

_SERVICE = pb.DESCRIPTOR.services_by_name["SamplingService"].full_name
_LENGTH_DELIMITED = 2


class SerializedRequest:
    """A serialized message as chunks, with the methods of a message that senders call."""

    def __init__(self, chunks: Sequence[Chunk]) -> None:
        self.chunks = chunks

    def ByteSize(self) -> int:  # noqa: N802
        """Bytes of the message."""
        return sum(map(len, self.chunks))

    def SerializeToString(self) -> bytes:  # noqa: N802
        """The message."""
        return b"".join(self.chunks)


def with_packed_data(request: pb.SampleRequest, data: Sequence[memoryview]) -> SerializedRequest:
    """A request whose `packed_cloud` has no data, with this data, one piece after the other."""
    around = pb.SampleRequest()
    around.CopyFrom(request)
    around.ClearField("packed_cloud")
    cloud = [
        request.packed_cloud.SerializeToString(),
        *_field(packed_cloud_pb2.PackedCloud.DATA_FIELD_NUMBER, data),
    ]
    number = pb.SampleRequest.PACKED_CLOUD_FIELD_NUMBER
    return SerializedRequest([around.SerializeToString(), *_field(number, cloud)])


def in_stream(
    request: pb.SampleRequest | SerializedRequest, mode: pb.StreamMode.ValueType
) -> pb.SampleStreamRequest | SerializedRequest:
    """The message of a stream with a request."""
    if isinstance(request, pb.SampleRequest):
        return pb.SampleStreamRequest(request=request, mode=mode)
    number = pb.SampleStreamRequest.REQUEST_FIELD_NUMBER
    head = pb.SampleStreamRequest(mode=mode).SerializeToString()
    return SerializedRequest([head, *_field(number, request.chunks)])


def take_serialized(stub: Any, channel: Any) -> None:
    """Lets a generated stub of SamplingService also send a `SerializedRequest`."""
    stub.Sample = channel.unary_unary(
        f"/{_SERVICE}/Sample",
        request_serializer=operator.methodcaller("SerializeToString"),
        response_deserializer=pb.SampleResponse.FromString,
        _registered_method=True,
    )
    stub.SampleStream = channel.stream_stream(
        f"/{_SERVICE}/SampleStream",
        request_serializer=operator.methodcaller("SerializeToString"),
        response_deserializer=pb.SampleStreamResponse.FromString,
        _registered_method=True,
    )


def _field(number: int, chunks: Sequence[Chunk]) -> list[Chunk]:
    """A field of bytes or a message, as chunks."""
    size = sum(map(len, chunks))
    return [_varint(number << 3 | _LENGTH_DELIMITED) + _varint(size), *chunks]


def _varint(value: int) -> bytes:
    """A number as a protobuf varint."""
    low = value & 0x7F
    return bytes([low]) if value < 0x80 else bytes([low | 0x80]) + _varint(value >> 7)
