"""An EncodeRequest to work, and the stages of a model to a serialized EncodeResponse."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from farpoint.v1 import sampling_pb2, tensor_pb2
from farpoint_models import EncoderConfig
from farpoint_server.codec.coordinates import narrow, nonfinite
from farpoint_server.codec.sample_request import Limits, check_points, read_lengths
from farpoint_server.codec.tensors import View, enum_name, pack, view
from farpoint_server.codec.wire import Buffer, nested
from farpoint_server.engine.types import EncoderInput, Float32s, Int64s, StageOutput
from farpoint_server.errors import InvalidRequestError

ATTRIBUTE_TYPES = (
    tensor_pb2.DATA_TYPE_FLOAT32,
    tensor_pb2.DATA_TYPE_FLOAT64,
    tensor_pb2.DATA_TYPE_FLOAT16,
)
Response = sampling_pb2.EncodeResponse
EncodedStage = sampling_pb2.EncodedStage


@dataclass(frozen=True)
class Plan:
    """A request whose sizes are right."""

    points: View
    """Shape (P, 3)."""
    attributes: View | None
    """Shape (P, A), of one of ATTRIBUTE_TYPES; None for a model that takes none."""
    lengths: Int64s
    """Shape (B,); adds up to P."""
    return_points: bool


def read_plan(
    request: sampling_pb2.EncodeRequest, size: int, config: EncoderConfig, limits: Limits
) -> Plan:
    """Checks all that can be checked without looking at a value.

    Args:
        request: As it arrived.
        size: Of it in bytes.
        config: Of the model that it is for.
        limits: What it may hold at most.

    Raises:
        InvalidRequestError: names the first field that is wrong.
    """
    if size > limits.message_bytes:
        larger = request.attributes.ByteSize() > request.points.ByteSize()
        expected = f"a message of at most {limits.message_bytes} bytes"
        field = "attributes.data" if larger else "points.data"
        raise InvalidRequestError(field, expected, f"{size} bytes")
    check_points(request.points, limits)
    points = view(request.points, "points")
    return Plan(
        points=points,
        attributes=_attributes(request, points.shape[0], config.attributes),
        lengths=read_lengths(request.lengths, points.shape[0], limits),
        return_points=request.return_points,
    )


def _attributes(request: sampling_pb2.EncodeRequest, points: int, channels: int) -> View | None:
    tensor = request.attributes
    if channels == 0:
        if request.HasField("attributes"):
            expected = "none, since the model takes none"
            raise InvalidRequestError("attributes", expected, f"shape {tuple(tensor.shape[:9])}")
        return None
    shape = tuple(tensor.shape[:9])
    if shape != (points, channels):
        expected = f"{(points, channels)}, since the model takes {channels} with each point"
        raise InvalidRequestError("attributes.shape", expected, shape)
    if tensor.data_type not in ATTRIBUTE_TYPES:
        names = ", ".join(enum_name(tensor_pb2.DataType, t) for t in ATTRIBUTE_TYPES)
        got = enum_name(tensor_pb2.DataType, tensor.data_type)
        raise InvalidRequestError("attributes.data_type", f"one of {names}", got)
    return view(tensor, "attributes")


def decode(plan: Plan) -> EncoderInput:
    """The clouds in float32, float64 coordinates shifted as for Sample.

    Raises:
        InvalidRequestError: a value is not finite.
    """
    points, _ = narrow(plan.points, plan.lengths)
    finite = _finite_rows(points)
    if not finite.all():
        raise nonfinite(points, finite, plan.lengths, "finite coordinates")
    return EncoderInput(points, _load_attributes(plan), plan.lengths)


def _load_attributes(plan: Plan) -> Float32s:
    if plan.attributes is None:
        return np.empty((plan.points.shape[0], 0), np.float32)
    with np.errstate(over="ignore"):
        values = plan.attributes.array().astype(np.float32, copy=False)
    finite = _finite_rows(values)
    if not finite.all():
        got = f"NaN or infinity in {len(finite) - int(finite.sum())} rows, the first at row"
        got = f"{got} {int(finite.argmin())}"
        raise InvalidRequestError("attributes.data", "finite numbers within float32", got)
    return values


def _finite_rows(values: Float32s) -> npt.NDArray[np.bool_]:
    return np.asarray(np.isfinite(values).all(axis=1))


def encode(model: str, plan: Plan, stages: Sequence[StageOutput]) -> list[Buffer]:
    """The EncodeResponse as chunks, complete but for `timings`."""
    chunks: list[Buffer] = [Response(model=model).SerializeToString()]
    for stage in stages:
        chunks += nested(Response.STAGES_FIELD_NUMBER, _stage(plan, stage))
    return chunks


def _stage(plan: Plan, stage: StageOutput) -> list[Buffer]:
    int32, float32 = tensor_pb2.DATA_TYPE_INT32, tensor_pb2.DATA_TYPE_FLOAT32
    tensors = {
        EncodedStage.INDICES_FIELD_NUMBER: pack(stage.indices, int32),
        EncodedStage.FEATURES_FIELD_NUMBER: pack(stage.features, float32),
        EncodedStage.COUNTS_FIELD_NUMBER: pack(stage.counts, int32),
        EncodedStage.MEAN_DISTANCES_FIELD_NUMBER: pack(stage.mean_distances, float32),
    }
    if plan.return_points:
        firsts = plan.lengths.cumsum() - plan.lengths
        rows = stage.indices + np.repeat(firsts, stage.lengths).astype(np.int32)
        tensors[EncodedStage.POINTS_FIELD_NUMBER] = plan.points.take(rows)
    chunks: list[Buffer] = [EncodedStage(lengths=stage.lengths.tolist()).SerializeToString()]
    for number, tensor in tensors.items():
        chunks += nested(number, tensor)
    return chunks
