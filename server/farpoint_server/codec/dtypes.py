"""The table of data types: of farpoint.v1, of numpy and of the Open Inference Protocol."""

from typing import Any, NamedTuple, TypeAlias

import numpy as np

from farpoint.v1 import tensor_pb2 as pb

DataType: TypeAlias = "pb.DataType.ValueType"


class DType(NamedTuple):
    """One type of elements."""

    number: DataType
    """In farpoint.v1, for tensors and fields of packed clouds."""
    numpy: np.dtype[Any]
    """Little-endian on every host; bfloat16, which numpy lacks, as uint16."""
    inference: str
    """Its name in the Open Inference Protocol, over gRPC and REST."""
    contents: str | None = None
    """The field of InferTensorContents for its elements; None if they are always sent raw."""


DTYPES = (
    DType(pb.DATA_TYPE_FLOAT32, np.dtype("<f4"), "FP32", "fp32_contents"),
    DType(pb.DATA_TYPE_FLOAT64, np.dtype("<f8"), "FP64", "fp64_contents"),
    DType(pb.DATA_TYPE_FLOAT16, np.dtype("<f2"), "FP16"),
    DType(pb.DATA_TYPE_BFLOAT16, np.dtype("<u2"), "BF16"),
    DType(pb.DATA_TYPE_INT8, np.dtype("<i1"), "INT8"),
    DType(pb.DATA_TYPE_INT16, np.dtype("<i2"), "INT16"),
    DType(pb.DATA_TYPE_INT32, np.dtype("<i4"), "INT32", "int_contents"),
    DType(pb.DATA_TYPE_INT64, np.dtype("<i8"), "INT64", "int64_contents"),
    DType(pb.DATA_TYPE_UINT8, np.dtype("<u1"), "UINT8"),
    DType(pb.DATA_TYPE_UINT16, np.dtype("<u2"), "UINT16"),
    DType(pb.DATA_TYPE_UINT32, np.dtype("<u4"), "UINT32", "uint_contents"),
    DType(pb.DATA_TYPE_UINT64, np.dtype("<u8"), "UINT64", "uint64_contents"),
    DType(pb.DATA_TYPE_BOOL, np.dtype("?"), "BOOL", "bool_contents"),
)
# Types of points, and of an encoder's attributes.
POINT_DTYPES, ATTRIBUTE_DTYPES = DTYPES[:4], DTYPES[:3]
POINT_TYPES = tuple(dtype.number for dtype in POINT_DTYPES)
ELEMENT_TYPES: dict[int, np.dtype[Any]] = {dtype.number: dtype.numpy for dtype in DTYPES}
INFERENCE_TYPES = {dtype.inference: dtype for dtype in DTYPES}


def dtype_named(name: str) -> DType:
    """The entry of a dtype by its name in numpy and manifests."""
    number = pb.DataType.Value(f"DATA_TYPE_{name.upper()}")
    return next(dtype for dtype in DTYPES if dtype.number == number)


def widened(array: np.ndarray[Any, Any], number: int) -> np.ndarray[Any, Any]:
    """Elements of a type, where bfloat16 is float32 instead of its bits."""
    if number != pb.DATA_TYPE_BFLOAT16:
        return array
    return (array.astype(np.uint32) << 16).view(np.float32)
