"""The Open Inference input `points` of every model: one cloud, or several of one size."""

import numpy as np

from farpoint.v1 import tensor_pb2
from farpoint_server.codec.open_inference.tensors import InputTensor
from farpoint_server.codec.open_inference.v2 import open_inference_pb2 as pb
from farpoint_server.codec.tensors import TensorView, parse_tensor
from farpoint_server.codec.validation import RequestLimits
from farpoint_server.engine.types import Int64s
from farpoint_server.errors import InvalidRequestError

VERSION = "1"
POINT_TYPES = {
    "FP32": tensor_pb2.DATA_TYPE_FLOAT32,
    "FP16": tensor_pb2.DATA_TYPE_FLOAT16,
    "BF16": tensor_pb2.DATA_TYPE_BFLOAT16,
    "FP64": tensor_pb2.DATA_TYPE_FLOAT64,
}


def parse_points(points: InputTensor, limits: RequestLimits) -> tuple[TensorView, Int64s]:
    """The points of all clouds, (P, 3), and the length of each; raises InvalidRequestError."""
    clouds, length = _sizes(points, limits)
    flat = tensor_pb2.Tensor(data_type=POINT_TYPES[points.datatype], shape=[clouds * length, 3])
    return parse_tensor(flat, "inputs[points]", points.data), np.full(clouds, length)


def is_batched(request: pb.ModelInferRequest) -> bool:
    """Whether a request that was read has a dimension of clouds, and so has the answer."""
    return next(len(tensor.shape) for tensor in request.inputs if tensor.name == "points") == 3


def _sizes(points: InputTensor, limits: RequestLimits) -> tuple[int, int]:
    """Clouds and points of each."""
    field = "inputs[points].shape"
    if len(points.shape) not in (2, 3) or points.shape[-1] != 3:
        raise InvalidRequestError(field, "(N, 3) or (B, N, 3)", points.shape)
    clouds = points.shape[0] if len(points.shape) == 3 else 1
    if not 1 <= clouds <= limits.clouds:
        raise InvalidRequestError(field, f"1 to {limits.clouds} clouds", points.shape)
    if not 1 <= clouds * points.shape[-2] <= limits.points:
        raise InvalidRequestError(field, f"1 to {limits.points} points", points.shape)
    return clouds, points.shape[-2]
