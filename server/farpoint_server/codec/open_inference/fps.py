"""Open Inference messages of the model `fps`: parsed and validated; and serialized."""

import numpy as np
import numpy.typing as npt

from farpoint_server.codec.coordinates import DecodedSampleRequest
from farpoint_server.codec.open_inference.message import InferMessage
from farpoint_server.codec.open_inference.points import (
    POINT_TYPES,
    VERSION,
    is_batched,
    parse_points,
)
from farpoint_server.codec.open_inference.tensors import (
    model_metadata,
    parse_inputs,
    requested_outputs,
)
from farpoint_server.codec.open_inference.v2 import open_inference_pb2 as pb
from farpoint_server.codec.sample_request import ParsedSampleRequest
from farpoint_server.codec.sample_response import rows_within
from farpoint_server.codec.validation import RequestLimits, check_range
from farpoint_server.engine.types import Int64s, Outcome, Samples
from farpoint_server.errors import InvalidRequestError, quoted

NAME = "fps"
INPUTS = {"points": tuple(POINT_TYPES), "sample_count": ("INT64", "INT32")}
OUTPUTS = {"indices": "INT32", "distances": "FP32"}
POLICIES = {"reject": False, "ignore": True}


def metadata() -> pb.ModelMetadataResponse:
    """Points (N, 3) or (B, N, 3), and one sample count M; indices and distances (M) or (B, M)."""
    return model_metadata(
        NAME,
        VERSION,
        inputs={"points": ("FP32", [-1, 3]), "sample_count": ("INT64", [1])},
        outputs={name: (type_, [-1]) for name, type_ in OUTPUTS.items()},
    )


def parse_fps_request(message: InferMessage, limits: RequestLimits) -> ParsedSampleRequest:
    """Validates all that can be validated without looking at a coordinate.

    The parameters `start_index` (integer) and `nonfinite_policy` ("reject" or "ignore") are as in
    farpoint.v1; others are left alone, as some clients always send a few.

    Raises:
        InvalidRequestError: names the first field that is wrong.
    """
    request = message.request
    points, count = parse_inputs(message, INPUTS)
    view, lengths = parse_points(points, limits)
    values = np.frombuffer(count.data, "<i8" if count.datatype == "INT64" else "<i4")
    if len(values) != 1:
        raise InvalidRequestError("inputs[sample_count].shape", "one element", count.shape)
    return ParsedSampleRequest(
        points=view,
        attributes=(),
        lengths=lengths,
        sample_counts=_checked(values, 1, lengths, "inputs[sample_count]"),
        starts=_checked(_start(request), 0, lengths - 1, "parameters[start_index]"),
        ignore_nonfinite=_ignore_nonfinite(request),
        return_points=False,
        return_distances="distances" in requested_outputs(request, OUTPUTS),
        message_bytes=message.size,
    )


def serialize_fps_response(
    request: pb.ModelInferRequest, decoded: DecodedSampleRequest, outcome: Outcome[Samples]
) -> pb.ModelInferResponse:
    """The answer, with the outputs that were asked for, in that order, raw."""
    clouds, samples = decoded.clouds, outcome.result
    rows = rows_within(clouds, samples.rows)
    arrays: dict[str, npt.NDArray[np.generic]] = {"indices": rows.astype("<i4")}
    if samples.distances is not None:
        arrays["distances"] = samples.distances.astype("<f4", copy=False)
    shape = [len(clouds.lengths), -1] if is_batched(request) else [-1]
    response = pb.ModelInferResponse(model_name=NAME, model_version=VERSION, id=request.id)
    for name in requested_outputs(request, OUTPUTS):
        array = arrays[name].reshape(shape)
        response.outputs.add(name=name, datatype=OUTPUTS[name], shape=array.shape)
        response.raw_output_contents.append(array.tobytes())
    return response


def _checked(values: npt.NDArray[np.integer], low: int, high: Int64s, field: str) -> Int64s:
    numbers = values.astype(np.int64)
    check_range(numbers, low, high, field, "the points of cloud {}")
    return numbers


def _start(request: pb.ModelInferRequest) -> Int64s:
    if "start_index" not in request.parameters:
        return np.zeros(1, np.int64)
    return np.array([request.parameters["start_index"].int64_param])


def _ignore_nonfinite(request: pb.ModelInferRequest) -> bool:
    if "nonfinite_policy" not in request.parameters:
        return False
    policy = request.parameters["nonfinite_policy"].string_param
    if policy not in POLICIES:
        expected = f"one of {', '.join(POLICIES)}"
        raise InvalidRequestError("parameters[nonfinite_policy]", expected, quoted(policy))
    return POLICIES[policy]
