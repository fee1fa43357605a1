"""Conversion between numpy arrays and Tensor messages: dtypes and checksums."""

import struct
from functools import lru_cache
from typing import Any

import google_crc32c
import numpy as np

from farpoint._dtypes import TYPES
from farpoint._types import Array
from farpoint.errors import DataLossError, InternalError, InvalidArgumentError
from farpoint.v1 import tensor_pb2 as pb

_TO_WIRE = {
    np.dtype(kind.numpy).newbyteorder("<").str: pb.DataType.Value(f"DATA_TYPE_{kind.farpoint}")
    for kind in TYPES
}
_FROM_WIRE = {data_type: np.dtype(name) for name, data_type in _TO_WIRE.items()}

# A protobuf message ends below 2 GiB; the rest of a request needs far less than this margin.
MAX_PAYLOAD_BYTES = 2**31 - 2**24


def to_tensor(parts: list[Array]) -> pb.Tensor:
    """Little-endian arrays of one dtype and one row shape, stacked along the first axis."""
    check_payload(sum(part.nbytes for part in parts))
    tensor = tensor_header(parts)
    tensor.data = _joined_bytes(parts)
    return tensor


def check_payload(size: int, field: str = "points.data") -> None:
    """Raises InvalidArgumentError for more bytes than a message can hold."""
    if size > MAX_PAYLOAD_BYTES:
        raise InvalidArgumentError(
            f"points must fit one message of {MAX_PAYLOAD_BYTES} bytes, got {size}: "
            "send fewer clouds at a time",
            field=field,
        )


def tensor_header(parts: list[Array]) -> pb.Tensor:
    """Like `to_tensor`, without the data."""
    rows = sum(part.shape[0] for part in parts)
    return pb.Tensor(
        data_type=wire_type(parts[0].dtype, "points.data_type"),
        shape=[rows, *parts[0].shape[1:]],
    )


def wire_type(dtype: np.dtype[Any], field: str) -> pb.DataType.ValueType:
    """The contract's type for a dtype of any byte order; raises InvalidArgumentError."""
    data_type = _TO_WIRE.get(dtype.newbyteorder("<").str)
    if data_type is None:
        raise InvalidArgumentError(f"{dtype} cannot be sent", field=field)
    return data_type


def to_arrays(*tensors: pb.Tensor, checksums: bool = False) -> list[Array]:
    """Read-only arrays of an answer's tensors.

    Raises:
        DataLossError: a checksum does not match, or was requested and is missing.
    """
    return [_to_array(tensor, checksums) for tensor in tensors]


def in_common_dtype(clouds: list[Array]) -> list[Array]:
    """The clouds in one little-endian dtype, the smallest that holds them all."""
    parts = [_in_wire_dtype(cloud) for cloud in clouds]
    widest = np.result_type(*{part.dtype for part in parts}).newbyteorder("<")
    return [part.astype(widest, copy=False) for part in parts]


def _in_wire_dtype(points: Array) -> Array:
    """`points` in a dtype that can be sent, of either byte order; copied only if it changes.

    float16, float32 and float64 stay as they are. Integers of 8 and 16 bits become float32 and
    wider ones float64; both steps are exact, as larger ones than ±2^53 are refused.
    """
    kind, size = points.dtype.kind, points.dtype.itemsize
    if kind == "f" and size in (2, 4, 8):
        return points
    if kind in "iu":
        if size == 8:
            _check_exact_in_float64(points)
        return points.astype("<f4" if size <= 2 else "<f8")
    raise InvalidArgumentError(
        f"points must be float16, bfloat16, float32, float64 or integers, got {points.dtype}",
        field="points.data_type",
    )


def _check_exact_in_float64(points: Array) -> None:
    limit = 2**53
    if points.size and (points.max() > limit or points.min() < -limit):
        raise InvalidArgumentError(
            "integer points must lie within ±2^53, where float64 is exact",
            field="points.data",
        )


def _joined_bytes(parts: list[Array]) -> bytes:
    """C-order bytes of all parts, each copied once."""
    if len(parts) == 1:
        return parts[0].tobytes()
    return b"".join(part.data if part.flags.c_contiguous else part.tobytes() for part in parts)


def _to_array(tensor: pb.Tensor, checksums: bool) -> Array:
    data = tensor.data
    _check_checksum(tensor, data, checksums)
    dtype = _FROM_WIRE.get(tensor.data_type)
    if dtype is None:
        raise InternalError(f"the server answered with the unknown data type {tensor.data_type}")
    try:
        return np.frombuffer(data, dtype).reshape(tuple(tensor.shape))
    except ValueError as error:
        raise InternalError(
            f"the server answered with {len(data)} bytes for {dtype} {list(tensor.shape)}"
        ) from error


def _check_checksum(tensor: pb.Tensor, data: bytes, checksums: bool) -> None:
    """Raises DataLossError for a tensor that was damaged in transit."""
    if not tensor.HasField("crc32c"):
        if checksums:
            raise DataLossError("the server answered without the checksums that were requested")
        return
    head = _head_crc(tensor.data_type, *tensor.shape)
    if google_crc32c.extend(head, data) != tensor.crc32c:
        raise DataLossError(
            f"the answer was damaged in transit: the checksum of {len(data)} bytes does not match"
        )


@lru_cache(256)
def _head_crc(*numbers: int) -> int:
    """Checksum of type and sizes, which often repeat."""
    return int(google_crc32c.value(struct.pack(f"<{len(numbers)}q", *numbers)))
