"""Requests and answers as raw messages, without the client's help."""

import os
import random
from collections.abc import Sequence
from typing import Any

import grpc
import numpy as np
from google.rpc import error_details_pb2, status_pb2

from farpoint.v1 import sampling_pb2 as pb
from farpoint.v1 import tensor_pb2

# Inputs that the fuzz tests of a parser try.
FUZZ_INPUTS = int(os.environ.get("FARPOINT_FUZZ", "2000"))
TYPES = {
    name: tensor_pb2.DataType.Value(f"DATA_TYPE_{name.upper()}")
    for name in (
        *("float16", "float32", "float64", "int8", "int16", "int32", "int64"),
        *("uint8", "uint16", "uint32", "uint64", "bool"),
    )
}


def tensor(array: np.ndarray) -> tensor_pb2.Tensor:
    return tensor_pb2.Tensor(
        data_type=TYPES[array.dtype.name], shape=array.shape, data=array.tobytes()
    )


def sample_request(points: np.ndarray, m: int | Sequence[int], **fields: Any) -> pb.SampleRequest:
    counts = [m] if isinstance(m, int) else m
    return pb.SampleRequest(points=tensor(points), sample_counts=counts, **fields)


def array(answer: tensor_pb2.Tensor, dtype: str) -> np.ndarray:
    return np.frombuffer(answer.data, dtype).reshape(tuple(answer.shape))


def details(error: grpc.RpcError) -> list[Any]:
    """The details of an error, unpacked."""
    packed = dict(error.trailing_metadata())["grpc-status-details-bin"]
    kinds = {kind.DESCRIPTOR.full_name: kind for kind in KINDS}
    unpacked = []
    for detail in status_pb2.Status.FromString(packed).details:
        message = kinds[detail.TypeName()]()
        detail.Unpack(message)
        unpacked.append(message)
    return unpacked


KINDS = (error_details_pb2.BadRequest, error_details_pb2.RetryInfo)


def mutated(seed: bytes, chance: random.Random) -> bytes:
    """Bytes changed, cut out, doubled or appended, a few times."""
    data = bytearray(seed)
    for _ in range(chance.randrange(4)):
        at, end = sorted(chance.randrange(len(data) + 1) for _ in range(2))
        kind = chance.randrange(5)
        if kind == 0 and at < len(data):
            data[at] = chance.randrange(256)
        elif kind == 1:
            del data[at : min(end, at + 9)]
        elif kind == 2:
            data[at:at] = data[at : min(end, at + 40)]
        elif kind == 3:
            data[at:at] = chance.randbytes(chance.randrange(6))
        elif kind == 4:
            del data[at:]
    return bytes(data)


def varint(value: int) -> bytes:
    """A number as the wire has it."""
    packed = bytearray()
    while value >= 0x80:
        packed.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*packed, value])


def field(number: int, content: bytes) -> bytes:
    """A field that holds bytes, a message or packed numbers."""
    return varint(number << 3 | 2) + varint(len(content)) + content
