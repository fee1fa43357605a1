"""Open Inference messages of the model `fps`: parsed and validated; and serialized."""

from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt

from farpoint_server.codec.coordinates import DecodedSampleRequest
from farpoint_server.codec.open_inference.message import InferMessage
from farpoint_server.codec.open_inference.points import (
    POINT_TYPES,
    VERSION,
    datatype_of,
    flat_rows,
    is_batched,
    parse_points,
)
from farpoint_server.codec.open_inference.tensors import (
    TYPES,
    InputTensor,
    model_metadata,
    parse_inputs,
    requested_outputs,
)
from farpoint_server.codec.open_inference.v2 import open_inference_pb2 as pb
from farpoint_server.codec.packed import PackedView
from farpoint_server.codec.sample_request import ParsedSampleRequest
from farpoint_server.codec.sample_response import rows_within
from farpoint_server.codec.tensors import TensorView
from farpoint_server.codec.validation import RequestLimits, check_range
from farpoint_server.engine.types import Int32s, Int64s, Outcome, Samples
from farpoint_server.errors import InvalidRequestError, quoted

NAME = "fps"
INTEGERS = ("INT64", "INT32")
INPUTS = {"points": POINT_TYPES, "sample_count": INTEGERS}
OPTIONAL = {"features": tuple(TYPES), "start": INTEGERS}
OUTPUTS: Mapping[str, tuple[str, Sequence[int]]] = {
    "indices": ("INT32", [-1]),
    "distances": ("FP32", [-1]),
    "points": ("FP32", [-1, 3]),
    "features": ("FP32", [-1, -1]),
}
POLICIES = {"reject": False, "ignore": True}


def metadata() -> pb.ModelMetadataResponse:
    """Points (N, 3) or (B, N, 3), one sample count M, and if wanted features of any type.

    The outputs have M rows, or (B, M): `points` and `features` are rows of the inputs of these
    names, in their types.
    """
    inputs: Mapping[str, tuple[str, Sequence[int]]] = {
        "points": ("FP32", [-1, 3]),
        "sample_count": ("INT64", [1]),
        "features": ("FP32", [-1, -1]),
        "start": ("INT64", [1]),
    }
    return model_metadata(NAME, VERSION, inputs, OUTPUTS)


def parse_fps_request(message: InferMessage, limits: RequestLimits) -> ParsedSampleRequest:
    """Validates all that can be validated without looking at a coordinate.

    The parameters `start_index` (integer) and `nonfinite_policy` ("reject" or "ignore") are as in
    farpoint.v1; others are left alone, as some clients always send a few.

    Raises:
        InvalidRequestError: names the first field that is wrong.
    """
    request = message.request
    inputs = parse_inputs(message, INPUTS, OPTIONAL)
    view, lengths = parse_points(inputs["points"], limits)
    count = _integers(inputs["sample_count"])
    if len(count) != 1:
        shape = inputs["sample_count"].shape
        raise InvalidRequestError("inputs[sample_count].shape", "one element", shape)
    check_range(count, 1, lengths, "inputs[sample_count]", "the points of cloud {}")
    wanted = requested_outputs(request, _known_outputs(request))
    return ParsedSampleRequest(
        points=view,
        attributes=_features(inputs),
        lengths=lengths,
        sample_counts=count,
        starts=_starts(request, inputs, lengths),
        ignore_nonfinite=_ignore_nonfinite(request),
        return_points="points" in wanted,
        return_distances="distances" in wanted,
        message_bytes=message.size,
    )


def serialize_fps_response(
    request: pb.ModelInferRequest, decoded: DecodedSampleRequest, outcome: Outcome[Samples]
) -> pb.ModelInferResponse:
    """The answer, with the outputs that were asked for, in that order, raw."""
    clouds, samples = decoded.work.clouds, outcome.result
    leading = [len(clouds.lengths), -1] if is_batched(request) else [-1]
    response = pb.ModelInferResponse(model_name=NAME, model_version=VERSION, id=request.id)
    for name in requested_outputs(request, _known_outputs(request)):
        array = _output(name, decoded, samples)
        type_ = datatype_of(request, name) if name in ("points", "features") else OUTPUTS[name][0]
        # -1 is not to be guessed where a row has no elements.
        rows = [clouds.sample_counts[0] if size == -1 else size for size in leading]
        response.outputs.add(name=name, datatype=type_, shape=[*rows, *array.shape[1:]])
        response.raw_output_contents.append(array.tobytes())
    return response


def _output(name: str, decoded: DecodedSampleRequest, samples: Samples) -> npt.NDArray[np.generic]:
    """One output of all clouds, (S, ...), little-endian."""
    if name == "indices":
        return rows_within(decoded.work.clouds, samples).astype("<i4", copy=False)
    if name == "distances" and samples.distances is not None:
        return samples.distances.astype("<f4", copy=False)
    if name == "points":
        return _taken(decoded.request.points, samples.rows)
    return _taken(dict(decoded.request.attributes)[name], samples.rows)


def _taken(view: TensorView | PackedView, rows: Int32s) -> npt.NDArray[np.generic]:
    taken: npt.NDArray[np.generic] = view.array().take(rows, axis=0)
    return taken


def _known_outputs(request: pb.ModelInferRequest) -> list[str]:
    """Those that the request can be given: features are rows of what it brings."""
    has_features = any(tensor.name == "features" for tensor in request.inputs)
    return [name for name in OUTPUTS if name != "features" or has_features]


def _features(inputs: Mapping[str, InputTensor]) -> tuple[tuple[str, TensorView], ...]:
    if "features" not in inputs:
        return ()
    features, leading = inputs["features"], inputs["points"].shape[:-1]
    if features.shape[: len(leading)] != leading:
        expected = f"({', '.join(map(str, leading))}, ...), a row for each point"
        raise InvalidRequestError("inputs[features].shape", expected, features.shape)
    trailing = len(features.shape) - len(leading)
    return (("features", flat_rows(features, "inputs[features]", trailing)),)


def _starts(
    request: pb.ModelInferRequest, inputs: Mapping[str, InputTensor], lengths: Int64s
) -> Int64s:
    """Shape (1,) or (B,), from the input or from the parameter; 0 without either."""
    field, starts = "inputs[start]", np.zeros(1, np.int64)
    if "start" in inputs:
        starts = _integers(inputs["start"])
        if len(starts) not in (1, len(lengths)):
            expected = f"one element, or one for each of the {len(lengths)} clouds"
            raise InvalidRequestError("inputs[start].shape", expected, inputs["start"].shape)
    if "start_index" in request.parameters:
        field = "parameters[start_index]"
        if "start" in inputs:
            raise InvalidRequestError(field, "none beside the input 'start'", "both")
        starts = np.array([request.parameters["start_index"].int64_param])
    check_range(starts, 0, lengths - 1, field, "the points of cloud {}")
    return starts


def _integers(tensor: InputTensor) -> Int64s:
    return np.frombuffer(tensor.data, "<i8" if tensor.datatype == "INT64" else "<i4").astype(
        np.int64
    )


def _ignore_nonfinite(request: pb.ModelInferRequest) -> bool:
    if "nonfinite_policy" not in request.parameters:
        return False
    policy = request.parameters["nonfinite_policy"].string_param
    if policy not in POLICIES:
        expected = f"one of {', '.join(POLICIES)}"
        raise InvalidRequestError("parameters[nonfinite_policy]", expected, quoted(policy))
    return POLICIES[policy]
