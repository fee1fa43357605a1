"""Tensor messages from and to numpy arrays."""

import numpy as np

from farpoint._arrays import Array
from farpoint.errors import InternalError, InvalidArgumentError
from farpoint.v1 import tensor_pb2 as pb

_TYPES: dict[str, pb.DataType.ValueType] = {
    "<f4": pb.DATA_TYPE_FLOAT32,
    "<f8": pb.DATA_TYPE_FLOAT64,
    "<f2": pb.DATA_TYPE_FLOAT16,
    "|i1": pb.DATA_TYPE_INT8,
    "<i2": pb.DATA_TYPE_INT16,
    "<i4": pb.DATA_TYPE_INT32,
    "<i8": pb.DATA_TYPE_INT64,
    "|u1": pb.DATA_TYPE_UINT8,
    "<u2": pb.DATA_TYPE_UINT16,
    "<u4": pb.DATA_TYPE_UINT32,
    "<u8": pb.DATA_TYPE_UINT64,
    "|b1": pb.DATA_TYPE_BOOL,
}
_DTYPES = {data_type: np.dtype(name) for name, data_type in _TYPES.items()}

# A protobuf message ends below 2 GiB; the rest of a request needs far less than this margin.
MAX_PAYLOAD_BYTES = 2**31 - 2**24


def encode(parts: list[Array]) -> pb.Tensor:
    """Little-endian arrays of one type and one row shape, stacked along the first axis."""
    size = sum(part.nbytes for part in parts)
    if size > MAX_PAYLOAD_BYTES:
        raise InvalidArgumentError(
            f"points must fit one message of {MAX_PAYLOAD_BYTES} bytes, got {size}: "
            "send fewer clouds at a time",
            field="points.data",
        )
    tensor = head(parts)
    tensor.data = _joined_bytes(parts)
    return tensor


def head(parts: list[Array]) -> pb.Tensor:
    """As `encode`, without the data."""
    rows = sum(part.shape[0] for part in parts)
    return pb.Tensor(
        data_type=_TYPES[parts[0].dtype.newbyteorder("<").str],
        shape=[rows, *parts[0].shape[1:]],
    )


def _joined_bytes(parts: list[Array]) -> bytes:
    """C-order bytes of all parts, each copied once."""
    if len(parts) == 1:
        return parts[0].tobytes()
    return b"".join(part.data if part.flags.c_contiguous else part.tobytes() for part in parts)


def decode(tensor: pb.Tensor) -> Array:
    """A read-only view of the message's own bytes."""
    dtype = _DTYPES.get(tensor.data_type)
    if dtype is None:
        raise InternalError(f"the server answered with the unknown data type {tensor.data_type}")
    try:
        return np.frombuffer(tensor.data, dtype).reshape(tuple(tensor.shape))
    except ValueError as error:
        raise InternalError(
            f"the server answered with {len(tensor.data)} bytes for {dtype} {list(tensor.shape)}"
        ) from error
