"""SampleResponse messages: the samples of a request serialized, without a copy of its tensors."""

import time
from functools import partial
from typing import Any

import numpy as np

from farpoint.v1 import sampling_pb2, tensor_pb2
from farpoint_server.codec.coordinates import DecodedSampleRequest
from farpoint_server.codec.packed import PackedView
from farpoint_server.codec.sample_request import ParsedSampleRequest
from farpoint_server.codec.wire import Buffer, length_delimited, serialize_tensor
from farpoint_server.compute.arrays import Int32s, Int64s
from farpoint_server.compute.work import Outcome
from farpoint_server.kinds.method import MethodClouds
from farpoint_server.kinds.sample import Clouds, Samples

Response = sampling_pb2.SampleResponse
_FLOATS = {4: tensor_pb2.DATA_TYPE_FLOAT32, 8: tensor_pb2.DATA_TYPE_FLOAT64}


def rows_within(clouds: Clouds | MethodClouds, samples: Samples) -> Int32s:
    """Rows of all clouds together as rows of each cloud."""
    if len(clouds.lengths) == 1:
        return samples.rows
    firsts = (clouds.lengths.cumsum() - clouds.lengths).astype(np.int32)
    return samples.rows - np.repeat(firsts, counts_of(clouds, samples))


def counts_of(clouds: Clouds | MethodClouds, samples: Samples) -> Int64s:
    """Samples of each cloud, shape (B,)."""
    return clouds.sample_counts if samples.counts is None else samples.counts


def response_bytes(request: ParsedSampleRequest, outcome: Outcome[Samples]) -> int:
    """Bytes of the tensors of a response that have a row per sample, at most."""
    points = request.points.shape[0]
    # Packed coordinates become float64 at most.
    is_packed = isinstance(request.points, PackedView)
    row = 8 + (24 if is_packed else len(request.points.data) // points)
    for _, values in request.attributes:
        row += len(values.data) // points
    return row * len(outcome.result.rows)


def serialize_sample_response(
    arrived: float, decoded: DecodedSampleRequest, outcome: Outcome[Samples]
) -> bytes:
    """The SampleResponse."""
    return b"".join(sample_response_chunks(arrived, decoded, outcome))


def sample_response_chunks(
    arrived: float, decoded: DecodedSampleRequest, outcome: Outcome[Samples]
) -> list[Buffer]:
    """The SampleResponse as chunks."""
    request, samples = decoded.request, outcome.result
    tensor = partial(serialize_tensor, checksum=request.return_checksums)
    rows = rows_within(decoded.work.clouds, samples)
    chunks = length_delimited(
        Response.INDICES_FIELD_NUMBER, tensor(rows, tensor_pb2.DATA_TYPE_INT32)
    )
    for name, values in request.attributes:
        attribute = _attribute(name, values.take(samples.rows, request.return_checksums))
        chunks += length_delimited(Response.ATTRIBUTES_FIELD_NUMBER, attribute)
    if request.return_points:
        points = (
            request.points.take(samples.rows, request.return_checksums)
            if samples.points is None
            else tensor(samples.points, _FLOATS[samples.points.dtype.itemsize])
        )
        chunks += length_delimited(Response.POINTS_FIELD_NUMBER, points)
    if request.return_distances and samples.distances is not None:
        distances = tensor(samples.distances, tensor_pb2.DATA_TYPE_FLOAT32)
        chunks += length_delimited(Response.DISTANCES_FIELD_NUMBER, distances)
    if decoded.origins is not None:
        origins = tensor(decoded.origins, tensor_pb2.DATA_TYPE_FLOAT64)
        chunks += length_delimited(Response.ORIGINS_FIELD_NUMBER, origins)
    counts, timings = counts_of(decoded.work.clouds, samples), timings_of(arrived, outcome)
    chunks.append(Response(lengths=counts.tolist(), timings=timings).SerializeToString())
    return chunks


def timings_of(arrived: float, outcome: Outcome[Any]) -> sampling_pb2.Timings:
    """The times of a request that arrived at a moment of time.monotonic and is answered now."""
    server_ms = (time.monotonic() - arrived) * 1e3
    return sampling_pb2.Timings(
        queue_ms=outcome.queue_ms, compute_ms=outcome.compute_ms, server_ms=server_ms
    )


def _attribute(name: str, tensor: list[Buffer]) -> list[Buffer]:
    head = tensor_pb2.Attribute(name=name).SerializeToString()
    return [head, *length_delimited(tensor_pb2.Attribute.VALUES_FIELD_NUMBER, tensor)]
