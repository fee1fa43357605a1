"""EncodeRequest and EncodeResponse messages: parsed, validated, decoded; and serialized."""

from dataclasses import dataclass
from functools import partial

import numpy as np

from farpoint.v1 import sampling_pb2, tensor_pb2
from farpoint_models import EncoderConfig
from farpoint_server.codec.coordinates import check_finite, check_values, to_float32
from farpoint_server.codec.dtypes import ATTRIBUTE_DTYPES
from farpoint_server.codec.sample_response import timings_of
from farpoint_server.codec.tensors import (
    RequestLimits,
    TensorView,
    check_message_size,
    check_points,
    check_type,
    parse_tensor,
    read_lengths,
)
from farpoint_server.codec.wire import Buffer, length_delimited, serialize_tensor
from farpoint_server.compute.arrays import Int64s
from farpoint_server.compute.work import Outcome
from farpoint_server.errors import InvalidRequestError
from farpoint_server.kinds.batching import ModelInput
from farpoint_server.kinds.encoder import StageOutput, stages_of
from farpoint_server.kinds.model import Outputs

ATTRIBUTE_TYPES = tuple(dtype.number for dtype in ATTRIBUTE_DTYPES)
Response = sampling_pb2.EncodeResponse
EncodedStage = sampling_pb2.EncodedStage


@dataclass(frozen=True)
class ParsedEncodeRequest:
    """A request with valid sizes, whose values are not validated yet."""

    points: TensorView
    """Shape (P, 3)."""
    attributes: TensorView | None
    """Shape (P, A), of one of ATTRIBUTE_TYPES; None for a model that takes none."""
    lengths: Int64s
    """Shape (B,); adds up to P."""
    return_points: bool
    return_checksums: bool = False


def parse_encode_request(
    request: sampling_pb2.EncodeRequest, size: int, config: EncoderConfig, limits: RequestLimits
) -> ParsedEncodeRequest:
    """Validates everything except values."""
    check_message_size(size, limits)
    check_points(request.points, limits)
    points = parse_tensor(request.points, "points")
    return ParsedEncodeRequest(
        points=points,
        attributes=_parse_attributes(request, points.shape[0], config.attributes),
        lengths=read_lengths(request.lengths, points.shape[0], limits),
        return_points=request.return_points,
        return_checksums=request.return_checksums,
    )


def _parse_attributes(
    request: sampling_pb2.EncodeRequest, points: int, channels: int
) -> TensorView | None:
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
    check_type(tensor, ATTRIBUTE_TYPES, "attributes")
    return parse_tensor(tensor, "attributes")


def decode_encode_request(request: ParsedEncodeRequest) -> ModelInput:
    """The clouds in float32, float64 coordinates shifted as for Sample."""
    points, _ = to_float32(request.points, request.lengths)
    check_finite(points, request.lengths, expected="finite coordinates")
    rows = {"points": points}
    if request.attributes is not None:
        with np.errstate(over="ignore"):
            attributes = request.attributes.array().astype(np.float32, copy=False)
        check_values(attributes, "attributes")
        rows["attributes"] = attributes
    return ModelInput(request.lengths, rows)


def serialize_encode_response(
    model: str, request: ParsedEncodeRequest, arrived: float, outcome: Outcome[Outputs]
) -> bytes:
    """The EncodeResponse."""
    chunks: list[Buffer] = [Response(model=model).SerializeToString()]
    for stage in stages_of(outcome.result):
        chunks += length_delimited(Response.STAGES_FIELD_NUMBER, _serialize_stage(request, stage))
    chunks.append(Response(timings=timings_of(arrived, outcome)).SerializeToString())
    return b"".join(chunks)


def _serialize_stage(request: ParsedEncodeRequest, stage: StageOutput) -> list[Buffer]:
    int32, float32 = tensor_pb2.DATA_TYPE_INT32, tensor_pb2.DATA_TYPE_FLOAT32
    serialize = partial(serialize_tensor, checksum=request.return_checksums)
    tensors = {
        EncodedStage.INDICES_FIELD_NUMBER: serialize(stage.indices, int32),
        EncodedStage.FEATURES_FIELD_NUMBER: serialize(stage.features, float32),
        EncodedStage.COUNTS_FIELD_NUMBER: serialize(stage.counts, int32),
        EncodedStage.MEAN_DISTANCES_FIELD_NUMBER: serialize(stage.mean_distances, float32),
    }
    if request.return_points:
        firsts = request.lengths.cumsum() - request.lengths
        rows = stage.indices + np.repeat(firsts, stage.lengths).astype(np.int32)
        tensors[EncodedStage.POINTS_FIELD_NUMBER] = request.points.take(
            rows, request.return_checksums
        )
    chunks: list[Buffer] = [EncodedStage(lengths=stage.lengths.tolist()).SerializeToString()]
    for number, tensor in tensors.items():
        chunks += length_delimited(number, tensor)
    return chunks
