"""InferRequest and InferResponse messages: parsed, validated, decoded; and serialized."""

import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from farpoint.v1 import sampling_pb2, tensor_pb2
from farpoint_models.programs import Joining, Manifest, Role, TensorSpec
from farpoint_server.codec.coordinates import nonfinite, to_float32
from farpoint_server.codec.tensors import TensorView, check_points, enum_name, parse_tensor
from farpoint_server.codec.validation import RequestLimits, read_lengths
from farpoint_server.codec.wire import ELEMENT_TYPES, Buffer, length_delimited, serialize_tensor
from farpoint_server.engine.types import Int64s, Outcome, ProgramInput, ProgramOutput
from farpoint_server.errors import InvalidRequestError, quoted

Outputs = Mapping[str, ProgramOutput]
Response = sampling_pb2.InferResponse
InferOutput = sampling_pb2.InferOutput
SCOPES = {
    Role.POINTS: sampling_pb2.TENSOR_SCOPE_POINT,
    Role.PER_POINT: sampling_pb2.TENSOR_SCOPE_POINT,
    Role.PER_SAMPLE: sampling_pb2.TENSOR_SCOPE_SAMPLE,
    Role.PER_CLOUD: sampling_pb2.TENSOR_SCOPE_CLOUD,
    Role.COUNTS: sampling_pb2.TENSOR_SCOPE_CLOUD,
}
_FLOAT64 = tensor_pb2.DATA_TYPE_FLOAT64
_BFLOAT16 = tensor_pb2.DATA_TYPE_BFLOAT16


@dataclass(frozen=True)
class ParsedInferRequest:
    """A request whose sizes are valid; its values are still to be looked at."""

    points: TensorView
    """Shape (P, 3)."""
    inputs: Mapping[str, TensorView]
    """Shape (P, ...) or (B, ...), as the manifest says."""
    lengths: Int64s
    """Shape (B,); adds up to P."""
    outputs: Sequence[str]
    """Those that are wanted, in their order."""
    return_checksums: bool = False


def parse_infer_request(
    request: sampling_pb2.InferRequest, size: int, manifest: Manifest, limits: RequestLimits
) -> ParsedInferRequest:
    """Validates all that can be validated without looking at a value.

    Args:
        request: As it arrived.
        size: Of it in bytes.
        manifest: Of the program that it is for.
        limits: What it may hold at most.

    Raises:
        InvalidRequestError: names the first field that is wrong.
    """
    if size > limits.message_bytes:
        expected = f"a message of at most {limits.message_bytes} bytes"
        raise InvalidRequestError("points.data", expected, f"{size} bytes")
    check_points(request.points, limits)
    points = parse_tensor(request.points, "points")
    lengths = read_lengths(request.lengths, points.shape[0], limits)
    inputs: dict[str, TensorView] = {}
    for index, item in enumerate(request.inputs):
        if item.name in inputs or item.name not in [s.name for s in manifest.extra_inputs]:
            known = ", ".join(spec.name for spec in manifest.extra_inputs) or "no other inputs"
            expected = f"each of {known} once" if manifest.extra_inputs else known
            raise InvalidRequestError(f"inputs[{index}].name", expected, quoted(item.name))
        inputs[item.name] = parse_tensor(item.values, f"inputs[{index}].values")
    for spec in manifest.extra_inputs:
        if spec.name in inputs and spec.role is Role.PER_CLOUD:
            inputs[spec.name] = _each_cloud(inputs[spec.name], spec, len(lengths))
    checked = ParsedInferRequest(
        points, inputs, lengths, _wanted(request, manifest), request.return_checksums
    )
    check_request(checked, manifest)
    return checked


def check_request(request: ParsedInferRequest, manifest: Manifest) -> None:
    """Raises InvalidRequestError for sizes and types that the program does not take."""
    _check_lengths(request.lengths, manifest)
    points = manifest.points
    is_narrowed = request.points.data_type == _FLOAT64 and points.dtype != "float64"
    if is_narrowed and not manifest.shift_float64:
        expected = f"{points.dtype.upper()}, since the model sees coordinates as they are"
        raise InvalidRequestError("points.data_type", expected, "FLOAT64")
    for spec in manifest.extra_inputs:
        view = request.inputs.get(spec.name)
        if view is None:
            raise InvalidRequestError("inputs", f"the input {spec.name!r}", "none of this name")
        is_row = spec.role is Role.PER_POINT
        rows = len(request.lengths) if not is_row else request.points.shape[0]
        shape = (rows, *spec.row_shape)
        field = f"inputs[{spec.name}]"
        if view.shape != shape:
            what = "point" if is_row else "cloud"
            expected = f"{shape}, a row for each {what}"
            raise InvalidRequestError(f"{field}.shape", expected, view.shape)
        sent = np.dtype(np.float32) if view.data_type == _BFLOAT16 else _dtype(view)
        are_floats = sent.kind == np.dtype(spec.dtype).kind == "f"
        if not (are_floats or np.can_cast(sent, spec.dtype, "safe")):
            got = enum_name(tensor_pb2.DataType, view.data_type)
            expected = f"a type that fits {spec.dtype}"
            raise InvalidRequestError(f"{field}.data_type", expected, got)


def decode_infer_request(request: ParsedInferRequest, manifest: Manifest) -> ProgramInput:
    """The clouds in the types of the program.

    Raises:
        InvalidRequestError: a value is not finite where it must be.
    """
    rows = {manifest.points.name: _decode_points(request, manifest)}
    values: dict[str, npt.NDArray[Any]] = {}
    for spec in manifest.extra_inputs:
        array = _convert(request.inputs[spec.name], spec)
        (rows if spec.role is Role.PER_POINT else values)[spec.name] = array
    return ProgramInput(request.lengths, rows, values)


def serialize_infer_response(
    model: str,
    manifest: Manifest,
    request: ParsedInferRequest,
    arrived: float,
    outcome: Outcome[Outputs],
) -> list[Buffer]:
    """The InferResponse as chunks.

    Args:
        model: Name of the model.
        manifest: Of it.
        request: What was asked.
        arrived: When it arrived, in seconds of time.monotonic.
        outcome: The outputs, and how long they took.
    """
    specs = {spec.name: spec for spec in manifest.outputs}
    chunks: list[Buffer] = [Response(model=model).SerializeToString()]
    serialize = partial(serialize_tensor, checksum=request.return_checksums)
    for name in request.outputs:
        output, scope = outcome.result[name], SCOPES[specs[name].role]
        lengths = None if output.lengths is None else output.lengths.tolist()
        head = InferOutput(name=name, scope=scope, lengths=lengths)
        tensor = serialize(output.values, data_type(specs[name].dtype))
        inside = [
            head.SerializeToString(),
            *length_delimited(InferOutput.VALUES_FIELD_NUMBER, tensor),
        ]
        chunks += length_delimited(Response.OUTPUTS_FIELD_NUMBER, inside)
    timings = sampling_pb2.Timings(
        queue_ms=outcome.queue_ms,
        compute_ms=outcome.compute_ms,
        server_ms=(time.monotonic() - arrived) * 1e3,
    )
    chunks.append(Response(timings=timings).SerializeToString())
    return chunks


def data_type(dtype: str) -> tensor_pb2.DataType.ValueType:
    """The contract's type of a manifest's dtype."""
    return tensor_pb2.DataType.Value(f"DATA_TYPE_{dtype.upper()}")


def describe_tensor(spec: TensorSpec) -> sampling_pb2.ModelTensor:
    """An input or an output as its message."""
    return sampling_pb2.ModelTensor(
        name=spec.name,
        scope=SCOPES[spec.role],
        data_type=data_type(spec.dtype),
        row_shape=[size if isinstance(size, int) else -1 for size in spec.row_shape],
    )


def _each_cloud(view: TensorView, spec: TensorSpec, clouds: int) -> TensorView:
    """Values of the clouds, of which a caller may have said that they are rows of points.

    A client cannot tell the K numbers of a cloud of K points from a number for each of its points.
    """
    shape = (clouds, *(size for size in spec.row_shape if isinstance(size, int)))
    return view._replace(shape=shape) if math.prod(shape) == math.prod(view.shape) else view


def _wanted(request: sampling_pb2.InferRequest, manifest: Manifest) -> list[str]:
    names = [spec.name for spec in manifest.outputs]
    for index, name in enumerate(request.outputs):
        if name not in names:
            expected = f"one of {', '.join(names)}"
            raise InvalidRequestError(f"outputs[{index}]", expected, quoted(name))
    return list(dict.fromkeys(request.outputs)) or names


def _check_lengths(lengths: Int64s, manifest: Manifest) -> None:
    for name, sizes, what in (("N", lengths, "points of a cloud"), ("P", lengths.sum(), "points")):
        least, most = manifest.limit(name)
        for size in (int(np.min(sizes)), int(np.max(sizes))):
            if size < least or (most is not None and size > most):
                expected = f"{least} to {most or 'any number of'} {what}, as the model takes"
                raise InvalidRequestError("lengths", expected, size)
    if manifest.joining is not Joining.ALONE or not manifest.has_clouds:
        return
    least, most = manifest.limit("B")
    if len(lengths) < least or (most is not None and len(lengths) > most):
        expected = f"{least} to {most or 'any number of'} clouds, as the model takes"
        raise InvalidRequestError("lengths", expected, len(lengths))
    if (lengths != lengths[0]).any():
        expected = "clouds of as many points each, since the model takes them together"
        raise InvalidRequestError("lengths", expected, f"{lengths.min()} to {lengths.max()}")


def _decode_points(request: ParsedInferRequest, manifest: Manifest) -> npt.NDArray[Any]:
    spec = manifest.points
    if spec.dtype == "float32":
        points: npt.NDArray[Any] = to_float32(request.points, request.lengths)[0]
    else:
        points = _widened(request.points).astype(spec.dtype, copy=False)
    finite = np.asarray(np.isfinite(points).all(axis=1))
    if not spec.nonfinite and not finite.all():
        raise nonfinite(points, finite, request.lengths, "finite coordinates")
    return points


def _convert(view: TensorView, spec: TensorSpec) -> npt.NDArray[Any]:
    with np.errstate(over="ignore"):
        array = _widened(view).astype(spec.dtype, copy=False)
    if spec.nonfinite or array.dtype.kind != "f":
        return array
    finite = np.isfinite(array.reshape(len(array), -1)).all(axis=1)
    if not finite.all():
        got = f"NaN or infinity in {len(finite) - int(finite.sum())} rows, the first at row"
        expected = f"finite numbers within {spec.dtype}"
        field = f"inputs[{spec.name}].data"
        raise InvalidRequestError(field, expected, f"{got} {int(finite.argmin())}")
    return array


def _widened(view: TensorView) -> npt.NDArray[Any]:
    array = view.array()
    if view.data_type == _BFLOAT16:
        widened: npt.NDArray[Any] = (array.astype(np.uint32) << 16).view(np.float32)
        return widened
    return array


def _dtype(view: TensorView) -> np.dtype[Any]:
    return ELEMENT_TYPES[view.data_type]
