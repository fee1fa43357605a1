"""The model `fps`: a ModelInferRequest to a plan, and an outcome to a ModelInferResponse."""

import numpy as np
import numpy.typing as npt

from farpoint.v1 import tensor_pb2
from farpoint_server.codec.numbers import check_range
from farpoint_server.codec.sample import Decoded
from farpoint_server.codec.sample_plan import Limits, Plan
from farpoint_server.codec.tensors import view
from farpoint_server.errors import InvalidRequestError
from farpoint_server.inference.tensors import SHARED_MEMORY, Input, read_inputs
from farpoint_server.inference.v2 import open_inference_pb2 as pb
from farpoint_server.work import Int64s, Outcome

NAME, VERSION, PLATFORM = "fps", "1", "farpoint"
POINT_TYPES = {
    "FP32": tensor_pb2.DATA_TYPE_FLOAT32,
    "FP16": tensor_pb2.DATA_TYPE_FLOAT16,
    "BF16": tensor_pb2.DATA_TYPE_BFLOAT16,
    "FP64": tensor_pb2.DATA_TYPE_FLOAT64,
}
INPUTS = {"points": tuple(POINT_TYPES), "sample_count": ("INT64", "INT32")}
OUTPUTS = {"indices": "INT32", "distances": "FP32"}
CLASSIFICATION = "classification"
POLICIES = {"reject": False, "ignore": True}


def metadata() -> pb.ModelMetadataResponse:
    """Points (N, 3) or (B, N, 3), and one sample count M; indices and distances (M) or (B, M)."""
    tensor = pb.ModelMetadataResponse.TensorMetadata
    return pb.ModelMetadataResponse(
        name=NAME,
        versions=[VERSION],
        platform=PLATFORM,
        inputs=[
            tensor(name="points", datatype="FP32", shape=[-1, 3]),
            tensor(name="sample_count", datatype="INT64", shape=[1]),
        ],
        outputs=[tensor(name=name, datatype=type_, shape=[-1]) for name, type_ in OUTPUTS.items()],
    )


def read_plan(request: pb.ModelInferRequest, limits: Limits) -> Plan:
    """Checks all that can be checked without looking at a coordinate.

    The parameters `start_index` (integer) and `nonfinite_policy` ("reject" or "ignore") are as in
    farpoint.v1; others are left alone, as some clients always send a few.

    Raises:
        InvalidRequestError: names the first field that is wrong.
    """
    points, count = read_inputs(request, INPUTS)
    clouds, length = _sizes(points, limits)
    lengths = np.full(clouds, length)
    values = np.frombuffer(count.data, "<i8" if count.datatype == "INT64" else "<i4")
    if len(values) != 1:
        raise InvalidRequestError("inputs[sample_count].shape", "one element", count.shape)
    return Plan(
        points=view(
            tensor_pb2.Tensor(data_type=POINT_TYPES[points.datatype], shape=[clouds * length, 3]),
            "inputs[points]",
            points.data,
        ),
        attributes=(),
        lengths=lengths,
        sample_counts=_checked(values, 1, lengths, "inputs[sample_count]"),
        starts=_checked(_start(request), 0, lengths - 1, "parameters[start_index]"),
        ignore_nonfinite=_ignore_nonfinite(request),
        return_points=False,
        return_distances="distances" in _wanted(request),
    )


def encode(
    request: pb.ModelInferRequest, decoded: Decoded, outcome: Outcome
) -> pb.ModelInferResponse:
    """The answer, with the outputs that were asked for, in that order, raw."""
    clouds, samples = decoded.clouds, outcome.samples
    firsts = clouds.lengths.cumsum() - clouds.lengths
    within = samples.rows - np.repeat(firsts, clouds.sample_counts)
    arrays: dict[str, npt.NDArray[np.generic]] = {"indices": within.astype("<i4")}
    if samples.distances is not None:
        arrays["distances"] = samples.distances.astype("<f4", copy=False)
    batched = next(len(tensor.shape) for tensor in request.inputs if tensor.name == "points") == 3
    shape = [len(clouds.lengths), -1] if batched else [-1]
    response = pb.ModelInferResponse(model_name=NAME, model_version=VERSION, id=request.id)
    for name in _wanted(request):
        array = arrays[name].reshape(shape)
        response.outputs.add(name=name, datatype=OUTPUTS[name], shape=array.shape)
        response.raw_output_contents.append(array.tobytes())
    return response


def _sizes(points: Input, limits: Limits) -> tuple[int, int]:
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


def _wanted(request: pb.ModelInferRequest) -> list[str]:
    """Names of the outputs that are asked for; all if none is."""
    for index, output in enumerate(request.outputs):
        if output.name not in OUTPUTS:
            expected = f"one of {', '.join(OUTPUTS)}"
            raise InvalidRequestError(f"outputs[{index}].name", expected, repr(output.name))
        for parameter in (SHARED_MEMORY, CLASSIFICATION):
            if parameter in output.parameters:
                field = f"outputs[{index}].parameters"
                raise InvalidRequestError(field, "a tensor in the message", parameter)
    return [output.name for output in request.outputs] or list(OUTPUTS)
