"""Open Inference messages of the model `fps`: parsed and validated; and serialized."""

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from farpoint.inference import open_inference_pb2 as pb
from farpoint_server.codec.coordinates import DecodedSampleRequest
from farpoint_server.codec.dtypes import INFERENCE_TYPES
from farpoint_server.codec.open_inference.messages import (
    POINT_TYPES,
    InferMessage,
    Output,
    Sizes,
    datatype_of,
    is_batched,
    make_response,
    parse_inputs,
    parse_points,
    requested_outputs,
    rows_of,
)
from farpoint_server.codec.sample_request import ParsedSampleRequest
from farpoint_server.codec.sample_response import rows_within
from farpoint_server.codec.tensors import RequestLimits, TensorView, check_range
from farpoint_server.compute.arrays import Int64s
from farpoint_server.compute.work import Outcome
from farpoint_server.errors import InvalidRequestError, quoted
from farpoint_server.kinds.sample import Samples

NAME = "fps"
INTEGERS = ("INT64", "INT32")
TYPES = {"points": POINT_TYPES, "sample_count": INTEGERS}
OPTIONAL = {"features": tuple(INFERENCE_TYPES), "start": INTEGERS}
# The clouds have shape (N, 3) or (B, N, 3) and one sample count M, the outputs M rows or (B, M):
# `points` and `features` are rows of the inputs of these names, in their types.
INPUTS: Sizes = {
    "points": ("FP32", [-1, 3]),
    "sample_count": ("INT64", [1]),
    "features": ("FP32", [-1, -1]),
    "start": ("INT64", [1]),
}
OUTPUTS: Sizes = {
    "indices": ("INT32", [-1]),
    "distances": ("FP32", [-1]),
    "points": ("FP32", [-1, 3]),
    "features": ("FP32", [-1, -1]),
}
POLICIES = {"reject": False, "ignore": True}


def parse_fps_request(message: InferMessage, limits: RequestLimits) -> ParsedSampleRequest:
    """Validates everything except coordinates.

    The parameter `nonfinite_policy` is "reject" or "ignore"; others are left alone, as some clients
    always send a few.
    """
    request = message.request
    inputs = parse_inputs(message, TYPES, OPTIONAL)
    view, lengths = parse_points(inputs["points"], limits)
    count = _integers(inputs["sample_count"])
    if len(count) != 1:
        shape = inputs["sample_count"].shape
        raise InvalidRequestError("inputs[sample_count].shape", "one element", shape)
    check_range(count, 1, lengths, "inputs[sample_count]", "the points of cloud {}")
    wanted = requested_outputs(request, _known_outputs(request))
    leading = inputs["points"].shape[:-1]
    features = tuple((n, rows_of(inputs[n], leading)) for n in ("features",) if n in inputs)
    return ParsedSampleRequest(
        points=view,
        attributes=features,
        lengths=lengths,
        sample_counts=count,
        starts=_starts(inputs, lengths),
        ignore_nonfinite=_ignore_nonfinite(request),
        return_points="points" in wanted,
        return_distances="distances" in wanted,
        message_bytes=message.size,
    )


def serialize_fps_response(
    request: pb.ModelInferRequest,
    arrived: float,
    decoded: DecodedSampleRequest,
    outcome: Outcome[Samples],
) -> pb.ModelInferResponse:
    """The response with the requested outputs, in that order."""
    clouds = decoded.work.clouds
    rows = [int(clouds.sample_counts[0])]
    leading = [len(clouds.lengths), *rows] if is_batched(request) else rows

    def outputs() -> Iterator[Output]:
        for name in requested_outputs(request, _known_outputs(request)):
            array = _output(name, decoded, outcome.result)
            is_input = name in ("points", "features")
            datatype = datatype_of(request, name) if is_input else OUTPUTS[name][0]
            yield name, datatype, array.reshape(*leading, *array.shape[1:])

    return make_response(request, NAME, outputs(), arrived, outcome)


def _output(name: str, decoded: DecodedSampleRequest, samples: Samples) -> npt.NDArray[Any]:
    """One output of all clouds, (S, ...)."""
    if name == "indices":
        return rows_within(decoded.work.clouds, samples)
    if name == "distances" and samples.distances is not None:
        return samples.distances
    request = decoded.request
    values = request.points if name == "points" else dict(request.attributes)[name]
    return values.array().take(samples.rows, axis=0)


def _known_outputs(request: pb.ModelInferRequest) -> list[str]:
    """The outputs that this request can have: features only if it has them."""
    has_features = any(tensor.name == "features" for tensor in request.inputs)
    return [name for name in OUTPUTS if name != "features" or has_features]


def _starts(inputs: Mapping[str, TensorView], lengths: Int64s) -> Int64s:
    """Shape (1,) or (B,); 0 without the input."""
    if "start" not in inputs:
        return np.zeros(1, np.int64)
    starts = _integers(inputs["start"])
    if len(starts) not in (1, len(lengths)):
        expected = f"one element, or one for each of the {len(lengths)} clouds"
        raise InvalidRequestError("inputs[start].shape", expected, inputs["start"].shape)
    check_range(starts, 0, lengths - 1, "inputs[start]", "the points of cloud {}")
    return starts


def _integers(tensor: TensorView) -> Int64s:
    return tensor.array().reshape(-1).astype(np.int64)


def _ignore_nonfinite(request: pb.ModelInferRequest) -> bool:
    if "nonfinite_policy" not in request.parameters:
        return False
    policy = request.parameters["nonfinite_policy"].string_param
    if policy not in POLICIES:
        expected = f"one of {', '.join(POLICIES)}"
        raise InvalidRequestError("parameters[nonfinite_policy]", expected, quoted(policy))
    return POLICIES[policy]
