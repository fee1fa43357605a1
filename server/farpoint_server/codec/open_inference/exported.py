"""Open Inference messages of a loaded model: parsed, validated, decoded; and serialized."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from farpoint.inference import open_inference_pb2 as pb
from farpoint.v1 import sampling_pb2, tensor_pb2
from farpoint_models.programs import Batching, Manifest, Role, TensorSpec
from farpoint_models.programs.tensors import ALL_ROWS, CLOUDS, ROWS
from farpoint_server.codec.coordinates import check_finite, check_values, to_float32
from farpoint_server.codec.dtypes import (
    DTYPES,
    ELEMENT_TYPES,
    INFERENCE_TYPES,
    dtype_named,
    widened,
)
from farpoint_server.codec.open_inference.messages import (
    POINT_TYPES,
    InferMessage,
    Output,
    Sizes,
    is_batched,
    make_response,
    parse_inputs,
    parse_points,
    requested_outputs,
    rows_of,
)
from farpoint_server.codec.tensors import RequestLimits, TensorView
from farpoint_server.compute.arrays import Int64s
from farpoint_server.compute.work import Outcome
from farpoint_server.errors import InvalidRequestError
from farpoint_server.kinds.batching import ModelInput
from farpoint_server.kinds.model import Outputs

SCOPES = {
    Role.POINTS: sampling_pb2.TENSOR_SCOPE_POINT,
    Role.PER_POINT: sampling_pb2.TENSOR_SCOPE_POINT,
    Role.PER_SAMPLE: sampling_pb2.TENSOR_SCOPE_SAMPLE,
    Role.PER_CLOUD: sampling_pb2.TENSOR_SCOPE_CLOUD,
    Role.COUNTS: sampling_pb2.TENSOR_SCOPE_CLOUD,
}
# Times its extent that a cloud may be away from 0 to be narrowed: float32 has 24 bits.
FAR = 16


@dataclass(frozen=True)
class ParsedExportedRequest:
    """A request with valid sizes, whose values are not validated yet."""

    points: TensorView
    """Shape (P, 3)."""
    inputs: Mapping[str, TensorView]
    """Shape (P, ...) or (B, ...), as the manifest says."""
    lengths: Int64s
    """Shape (B,); adds up to P."""
    outputs: Sequence[str]
    """Names of the requested outputs, in order."""


def tensor_sizes(specs: Sequence[TensorSpec]) -> Sizes:
    """The model's tensors for one cloud; all accept a leading dimension of clouds."""
    return {spec.name: (dtype_named(spec.dtype).inference, _shape(spec)) for spec in specs}


def describe_tensor(spec: TensorSpec) -> sampling_pb2.ModelTensor:
    """An input or an output as a farpoint.v1 message."""
    return sampling_pb2.ModelTensor(
        name=spec.name,
        scope=SCOPES[spec.role],
        data_type=dtype_named(spec.dtype).number,
        row_shape=_row_shape(spec),
    )


def parse_exported_request(
    message: InferMessage, manifest: Manifest, limits: RequestLimits
) -> ParsedExportedRequest:
    """Validates everything except values; raises ServiceError."""
    wanted = requested_outputs(message.request, [spec.name for spec in manifest.outputs])
    types = {spec.name: INFERENCE_TYPES for spec in manifest.extra_inputs}
    inputs = parse_inputs(message, {manifest.points.name: POINT_TYPES, **types})
    points = inputs[manifest.points.name]
    (width,) = manifest.points.row_shape
    flat, lengths = parse_points(points, limits, int(width))
    _check_points(points, lengths, manifest)
    extra = {
        spec.name: _parse_input(inputs[spec.name], spec, points.shape[:-1], manifest)
        for spec in manifest.extra_inputs
    }
    return ParsedExportedRequest(flat, extra, lengths, wanted)


def decode_exported_request(request: ParsedExportedRequest, manifest: Manifest) -> ModelInput:
    """The clouds in the types of the model; raises InvalidRequestError."""
    rows = {manifest.points.name: _decode_points(request, manifest)}
    values: dict[str, npt.NDArray[Any]] = {}
    for spec in manifest.extra_inputs:
        array = _convert(request.inputs[spec.name], spec)
        (rows if spec.role is Role.PER_POINT else values)[spec.name] = array
    return ModelInput(request.lengths, rows, values)


def serialize_exported_response(
    request: pb.ModelInferRequest,
    model: str,
    manifest: Manifest,
    parsed: ParsedExportedRequest,
    arrived: float,
    outcome: Outcome[Outputs],
) -> pb.ModelInferResponse:
    """The response with the requested outputs, in that order.

    Rows have a first dimension of clouds where the points have one. Rows per sample whose number
    differs between clouds are concatenated instead, with the output that has their numbers.

    Raises:
        InvalidRequestError: the response has no such output.
    """
    has_clouds = is_batched(request, manifest.points.name)
    types = {spec.name: dtype_named(spec.dtype).inference for spec in manifest.outputs}
    counts = {spec.name: spec.counts for spec in manifest.outputs}

    def outputs() -> Iterator[Output]:
        for name in parsed.outputs:
            array, lengths = outcome.result[name]
            if lengths is None:
                array = array if has_clouds else array[0]
            elif has_clouds and (lengths == lengths[0]).all():
                array = array.reshape(len(parsed.lengths), -1, *array.shape[1:])
            elif has_clouds and counts[name] not in parsed.outputs:
                missing = f"the output {counts[name]}" if counts[name] else "one cloud a request"
                expected = f"{missing}, since else nothing says which rows are whose"
                raise InvalidRequestError(f"outputs[{name}]", expected, f"{lengths.tolist()} rows")
            yield name, types[name], array

    return make_response(request, model, outputs(), arrived, outcome)


def _row_shape(spec: TensorSpec) -> list[int]:
    return [size if isinstance(size, int) else -1 for size in spec.row_shape]


def _shape(spec: TensorSpec) -> list[int]:
    rows = [] if spec.role in (Role.PER_CLOUD, Role.COUNTS) else [-1]
    return [*rows, *_row_shape(spec)]


def _check_points(points: TensorView, lengths: Int64s, manifest: Manifest) -> None:
    """Raises InvalidRequestError for sizes that the model does not accept."""
    # Calls are made of whole clouds, so that limits of all their rows bound each of them.
    sizes = {name: (int(lengths[0]), "points of a cloud") for name in (ROWS, ALL_ROWS)}
    if manifest.batching is Batching.ALONE and manifest.has_clouds:
        sizes[CLOUDS] = len(lengths), "clouds"
    for name, (size, what) in sizes.items():
        _check_limit(manifest, name, size, f"{points.field}.shape", what)


def _check_limit(manifest: Manifest, name: str, size: int, field: str, what: str) -> None:
    least, most = manifest.limit(name)
    if size < least or (most is not None and size > most):
        expected = f"{least} to {most or 'any number of'} {what}, as the model takes"
        raise InvalidRequestError(field, expected, size)


def _parse_input(
    tensor: TensorView, spec: TensorSpec, leading: Sequence[int], manifest: Manifest
) -> TensorView:
    """A row for each point, or for each cloud; raises InvalidRequestError for another."""
    field, rows = f"{tensor.field}.shape", spec.row_shape
    if spec.role is Role.PER_POINT:
        view, what = rows_of(tensor, leading), "point"
        shape = (view.shape[0], *rows)
    else:  # of points without a dimension of clouds, the row of the cloud itself, or [1] of it
        what, shape = "cloud", (leading[0] if len(leading) > 1 else 1, *rows)
        is_row = len(leading) == 1 and len(tensor.shape) == len(rows)
        view = tensor._replace(shape=(1, *tensor.shape)) if is_row else tensor
    if len(view.shape) != len(shape) or any(
        size != got for size, got in zip(shape, view.shape, strict=True) if isinstance(size, int)
    ):
        wanted = shape[1:] if what == "cloud" and len(leading) == 1 else shape
        raise InvalidRequestError(field, f"{wanted}, a row for each {what}", tensor.shape)
    for name, size in zip(shape, view.shape, strict=True):
        if isinstance(name, str):
            _check_limit(manifest, name, size, field, name)
    is_bfloat16 = view.data_type == tensor_pb2.DATA_TYPE_BFLOAT16
    sent = np.dtype(np.float32) if is_bfloat16 else ELEMENT_TYPES[view.data_type]
    are_floats = sent.kind == np.dtype(spec.dtype).kind == "f"
    if not (are_floats or np.can_cast(sent, spec.dtype, "safe")):
        expected = f"a type that fits {spec.dtype}"
        got = next(dtype.inference for dtype in DTYPES if dtype.number == view.data_type)
        raise InvalidRequestError(f"{tensor.field}.datatype", expected, got)
    return view


def _decode_points(request: ParsedExportedRequest, manifest: Manifest) -> npt.NDArray[Any]:
    spec, sent = manifest.points, request.points
    is_double = sent.data_type == tensor_pb2.DATA_TYPE_FLOAT64
    if spec.dtype == "float32" and (manifest.shift_float64 or not is_double):
        points: npt.NDArray[Any] = to_float32(sent, request.lengths)[0]
    else:
        raw = widened(sent.array(), sent.data_type)
        with np.errstate(over="ignore"):
            points = raw.astype(spec.dtype, copy=False)
        if is_double and spec.dtype != "float64" and len(raw) > 1 and _is_far(raw):
            expected = f"coordinates that {spec.dtype} tells apart, since the model sees them as "
            expected += "they are: subtract an origin from them"
            raise InvalidRequestError(f"inputs[{spec.name}].data", expected, "float64 far from 0")
    if not spec.nonfinite:
        field = f"inputs[{spec.name}]"
        check_finite(points, request.lengths, field=field, expected="finite coordinates")
    return points


def _is_far(points: npt.NDArray[Any]) -> bool:
    """Whether finite coordinates are much farther from 0 than from each other."""
    finite = points[np.isfinite(points).all(1), :3]
    return bool(len(finite)) and bool(abs(finite).max() > FAR * np.ptp(finite, 0).max())


def _convert(view: TensorView, spec: TensorSpec) -> npt.NDArray[Any]:
    with np.errstate(over="ignore"):
        array = widened(view.array(), view.data_type).astype(spec.dtype, copy=False)
    if not spec.nonfinite and array.dtype.kind == "f":
        check_values(array, f"inputs[{spec.name}]")
    return array
