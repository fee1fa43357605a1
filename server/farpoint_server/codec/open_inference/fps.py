"""The model `fps`: a ModelInferRequest to a plan, and an outcome to a ModelInferResponse."""

import numpy as np
import numpy.typing as npt

from farpoint_server.codec.open_inference.points import (
    POINT_TYPES,
    VERSION,
    is_batched,
    read_points,
)
from farpoint_server.codec.open_inference.tensors import metadata_of, read_inputs, wanted_outputs
from farpoint_server.codec.open_inference.v2 import open_inference_pb2 as pb
from farpoint_server.codec.sample_request import Limits, Plan
from farpoint_server.codec.sample_response import Decoded
from farpoint_server.codec.validation import check_range
from farpoint_server.engine.types import Int64s, Outcome, Samples
from farpoint_server.errors import InvalidRequestError

NAME = "fps"
INPUTS = {"points": tuple(POINT_TYPES), "sample_count": ("INT64", "INT32")}
OUTPUTS = {"indices": "INT32", "distances": "FP32"}
POLICIES = {"reject": False, "ignore": True}


def metadata() -> pb.ModelMetadataResponse:
    """Points (N, 3) or (B, N, 3), and one sample count M; indices and distances (M) or (B, M)."""
    return metadata_of(
        NAME,
        VERSION,
        inputs={"points": ("FP32", [-1, 3]), "sample_count": ("INT64", [1])},
        outputs={name: (type_, [-1]) for name, type_ in OUTPUTS.items()},
    )


def read_plan(request: pb.ModelInferRequest, limits: Limits) -> Plan:
    """Checks all that can be checked without looking at a coordinate.

    The parameters `start_index` (integer) and `nonfinite_policy` ("reject" or "ignore") are as in
    farpoint.v1; others are left alone, as some clients always send a few.

    Raises:
        InvalidRequestError: names the first field that is wrong.
    """
    points, count = read_inputs(request, INPUTS)
    view, lengths = read_points(points, limits)
    values = np.frombuffer(count.data, "<i8" if count.datatype == "INT64" else "<i4")
    if len(values) != 1:
        raise InvalidRequestError("inputs[sample_count].shape", "one element", count.shape)
    return Plan(
        points=view,
        attributes=(),
        lengths=lengths,
        sample_counts=_checked(values, 1, lengths, "inputs[sample_count]"),
        starts=_checked(_start(request), 0, lengths - 1, "parameters[start_index]"),
        ignore_nonfinite=_ignore_nonfinite(request),
        return_points=False,
        return_distances="distances" in wanted_outputs(request, OUTPUTS),
    )


def encode(
    request: pb.ModelInferRequest, decoded: Decoded, outcome: Outcome[Samples]
) -> pb.ModelInferResponse:
    """The answer, with the outputs that were asked for, in that order, raw."""
    clouds, samples = decoded.clouds, outcome.result
    firsts = clouds.lengths.cumsum() - clouds.lengths
    within = samples.rows - np.repeat(firsts, clouds.sample_counts)
    arrays: dict[str, npt.NDArray[np.generic]] = {"indices": within.astype("<i4")}
    if samples.distances is not None:
        arrays["distances"] = samples.distances.astype("<f4", copy=False)
    shape = [len(clouds.lengths), -1] if is_batched(request) else [-1]
    response = pb.ModelInferResponse(model_name=NAME, model_version=VERSION, id=request.id)
    for name in wanted_outputs(request, OUTPUTS):
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
        raise InvalidRequestError("parameters[nonfinite_policy]", expected, repr(policy))
    return POLICIES[policy]
