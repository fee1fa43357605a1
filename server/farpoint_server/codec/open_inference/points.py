"""The Open Inference input of points of every model, and tensors with a row for each point."""

import math

import numpy as np

from farpoint.v1 import tensor_pb2
from farpoint_server.codec.open_inference.tensors import TYPES, InputTensor
from farpoint_server.codec.open_inference.v2 import open_inference_pb2 as pb
from farpoint_server.codec.tensors import TensorView, parse_tensor
from farpoint_server.codec.validation import RequestLimits
from farpoint_server.engine.types import Int64s
from farpoint_server.errors import InvalidRequestError

VERSION = "1"
POINTS = "points"
POINT_TYPES = ("FP32", "FP16", "BF16", "FP64")


def parse_points(
    points: InputTensor, limits: RequestLimits, name: str = POINTS
) -> tuple[TensorView, Int64s]:
    """The points of all clouds, (P, 3), and the length of each; raises InvalidRequestError."""
    clouds, length = _sizes(points, limits, f"inputs[{name}].shape")
    return flat_rows(points, f"inputs[{name}]", 1), np.full(clouds, length)


def flat_rows(tensor: InputTensor, field: str, trailing: int) -> TensorView:
    """A tensor with one row for each point of all clouds, (P, ...).

    Args:
        tensor: Shape (N, ...) or (B, N, ...), as long as its shape says.
        field: Its path in the request.
        trailing: Dimensions of a row.
    """
    split = len(tensor.shape) - trailing
    shape = [math.prod(tensor.shape[:split]), *tensor.shape[split:]]
    flat = tensor_pb2.Tensor(data_type=TYPES[tensor.datatype][1], shape=shape)
    return parse_tensor(flat, field, tensor.data)


def is_batched(request: pb.ModelInferRequest, name: str = POINTS) -> bool:
    """Whether a request that was read has a dimension of clouds, and so has the answer."""
    return next(len(tensor.shape) for tensor in request.inputs if tensor.name == name) == 3


def datatype_of(request: pb.ModelInferRequest, name: str) -> str:
    """The datatype of an input of a request that was read."""
    return next(tensor.datatype for tensor in request.inputs if tensor.name == name)


def _sizes(points: InputTensor, limits: RequestLimits, field: str) -> tuple[int, int]:
    """Clouds and points of each."""
    if len(points.shape) not in (2, 3) or points.shape[-1] != 3:
        raise InvalidRequestError(field, "(N, 3) or (B, N, 3)", points.shape)
    clouds = points.shape[0] if len(points.shape) == 3 else 1
    if not 1 <= clouds <= limits.clouds:
        raise InvalidRequestError(field, f"1 to {limits.clouds} clouds", points.shape)
    if not 1 <= clouds * points.shape[-2] <= limits.points:
        raise InvalidRequestError(field, f"1 to {limits.points} points", points.shape)
    return clouds, points.shape[-2]
