"""A plan to work, and the outcome of the work to a serialized SampleResponse."""

import struct
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from farpoint.v1 import sampling_pb2, tensor_pb2
from farpoint_server.codec.coordinates import Float64s, load_points
from farpoint_server.codec.sample_request import Plan
from farpoint_server.codec.tensors import View, pack
from farpoint_server.codec.wire import Buffer, nested
from farpoint_server.engine.types import Clouds, Int32s, Int64s, Outcome, Samples

Response = sampling_pb2.SampleResponse
# The message Timings: three numbers of the wire's type 1, which is eight bytes.
_TIMINGS = struct.Struct("<BdBdBd")
_TIMING_TAGS = tuple(
    sampling_pb2.Timings.DESCRIPTOR.fields_by_name[name].number << 3 | 1
    for name in ("queue_ms", "compute_ms", "server_ms")
)
_TIMINGS_HEAD = bytes(nested(Response.TIMINGS_FIELD_NUMBER, [bytes(_TIMINGS.size)])[0])


class Decoded(NamedTuple):
    """The work of one request, and what its answer needs besides."""

    plan: Plan
    clouds: Clouds
    origins: Float64s | None


def decode(plan: Plan) -> Decoded:
    """Work for the batcher; the coordinates are checked here.

    Raises:
        InvalidRequestError: as `load_points` does.
    """
    plan = plan.owned()
    points, origins = load_points(plan)
    clouds = Clouds(
        points=points,
        lengths=plan.lengths,
        sample_counts=_spread(plan.sample_counts, len(plan.lengths)),
        starts=_spread(plan.starts, len(plan.lengths)),
        with_distances=plan.return_distances,
    )
    return Decoded(plan, clouds, origins)


def _spread(values: Int64s, clouds: int) -> Int64s:
    """One value for each cloud."""
    return values if len(values) == clouds else np.broadcast_to(values, clouds)


def rows_within(clouds: Clouds, rows: Int32s) -> Int32s:
    """Rows of all clouds together as rows of each cloud."""
    if len(clouds.lengths) == 1:
        return rows
    firsts = (clouds.lengths.cumsum() - clouds.lengths).astype(np.int32)
    return rows - np.repeat(firsts, clouds.sample_counts)


def encode(decoded: Decoded, outcome: Outcome[Samples]) -> list[Buffer]:
    """The SampleResponse as chunks, complete but for `timings`."""
    plan, clouds, samples = decoded.plan, decoded.clouds, outcome.result
    within = rows_within(clouds, samples.rows)
    chunks: list[Buffer] = [_lengths(clouds.sample_counts)]
    chunks += nested(Response.INDICES_FIELD_NUMBER, pack(within, tensor_pb2.DATA_TYPE_INT32))
    for name, values in plan.attributes:
        chunks += nested(Response.ATTRIBUTES_FIELD_NUMBER, _attribute(name, values, samples.rows))
    if plan.return_points:
        chunks += nested(Response.POINTS_FIELD_NUMBER, plan.points.take(samples.rows))
    if plan.return_distances and samples.distances is not None:
        distances = pack(samples.distances, tensor_pb2.DATA_TYPE_FLOAT32)
        chunks += nested(Response.DISTANCES_FIELD_NUMBER, distances)
    if decoded.origins is not None:
        origins = pack(decoded.origins, tensor_pb2.DATA_TYPE_FLOAT64)
        chunks += nested(Response.ORIGINS_FIELD_NUMBER, origins)
    return chunks


def _lengths(counts: Int64s) -> Buffer:
    if len(counts) == 1:
        return _length(int(counts[0]))
    return Response(lengths=counts.tolist()).SerializeToString()


@lru_cache(1024)
def _length(count: int) -> bytes:
    return Response(lengths=[count]).SerializeToString()


def timings(outcome: Outcome[Samples], server_ms: float) -> Buffer:
    """The rest of the answer that `encode` begins."""
    first, second, third = _TIMING_TAGS
    return _TIMINGS_HEAD + _TIMINGS.pack(
        first, outcome.queue_ms, second, outcome.compute_ms, third, server_ms
    )


def _attribute(name: str, values: View, rows: Int32s) -> list[Buffer]:
    head = tensor_pb2.Attribute(name=name).SerializeToString()
    return [head, *nested(tensor_pb2.Attribute.VALUES_FIELD_NUMBER, values.take(rows))]
