"""Requests built and answers read: all that the sync and async clients share."""

import time
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from farpoint import _tensors
from farpoint._arrays import Array, coordinates_for_wire
from farpoint._batch import (
    Gathered,
    check_sample_counts,
    check_start_indices,
    split_attributes,
    split_clouds,
)
from farpoint.errors import InternalError, InvalidArgumentError
from farpoint.results import Device, Limits, Sample, ServerInfo, Timings
from farpoint.v1 import sampling_pb2 as pb
from farpoint.v1 import tensor_pb2

REQUEST_ID_KEY = "x-request-id"

_NONFINITE = {
    "reject": pb.NONFINITE_POLICY_REJECT,
    "ignore": pb.NONFINITE_POLICY_IGNORE,
}


@dataclass(frozen=True)
class Call:
    """One call under way: its id, its deadline and when it began."""

    timeout: float | None
    request_id: str = field(default_factory=lambda: uuid.uuid4().hex)
    started: float = field(default_factory=time.perf_counter)

    @property
    def options(self) -> dict[str, Any]:
        """Keyword arguments of the stub's method."""
        return {"timeout": self.timeout, "metadata": ((REQUEST_ID_KEY, self.request_id),)}

    def elapsed_ms(self) -> float:
        """Since the call began."""
        return (time.perf_counter() - self.started) * 1e3


def start_call(timeout: float | None, default: float | None) -> Call:
    """A call with its own timeout in seconds, or else the client's."""
    timeout = default if timeout is None else timeout
    if timeout is not None and not timeout > 0:
        raise InvalidArgumentError(
            f"timeout must be seconds above 0, or None, got {timeout}", field="timeout"
        )
    return Call(timeout)


@dataclass(frozen=True)
class SamplePlan:
    """A request of `sample`, with what is needed to read its answer."""

    request: pb.SampleRequest
    clouds: list[Array]
    attributes: list[Gathered]
    single: bool

    @property
    def is_empty(self) -> bool:
        """Whether there is no cloud, so nothing to ask."""
        return not self.clouds

    def read(self, response: pb.SampleResponse, call: Call) -> Sample | list[Sample]:
        """The answer as one `Sample`, or as a list where a batch was asked for."""
        samples = list(self._samples(response, call))
        return samples[0] if self.single else samples

    def _samples(self, response: pb.SampleResponse, call: Call) -> Iterator[Sample]:
        indices = _tensors.decode(response.indices).astype(np.int64)
        distances = _tensors.decode(response.distances).astype(np.float32)
        origins = _origins(response, len(self.clouds))
        self._check(response, indices, distances)
        timings = read_timings(response.timings, call)
        end = 0
        for i, (cloud, attributes) in enumerate(zip(self.clouds, self.attributes, strict=True)):
            begin, end = end, end + response.lengths[i]
            rows = indices[begin:end]
            check_rows(rows, cloud)
            yield Sample(
                indices=rows,
                points=cloud[rows],
                attributes=_gather(attributes, rows),
                distances=distances[begin:end],
                timings=timings,
                origin=None if origins is None else origins[i],
                request_id=call.request_id,
            )

    def _check(self, response: pb.SampleResponse, indices: Array, distances: Array) -> None:
        counts = list(self.request.sample_counts)
        expected = counts * len(self.clouds) if len(counts) == 1 else counts
        lengths = list(response.lengths)
        if lengths != expected or not len(indices) == len(distances) == sum(lengths):
            raise InternalError(
                f"the server answered with {len(indices)} indices and {len(distances)} distances "
                f"for clouds of {lengths} samples, expected {expected}"
            )


def plan_sample(
    points: object,
    m: object,
    attributes: object,
    start: object,
    nonfinite: str,
    encode: Callable[[list[Array]], tensor_pb2.Tensor] = _tensors.encode,
) -> SamplePlan:
    """Checks the arguments of `sample` and builds its request.

    Coordinates are not scanned for NaN and infinity here: the server does that anyway. `encode`
    makes the tensor of the points, which may hold them or say where they are.

    Raises:
        InvalidArgumentError: an argument is wrong.
    """
    check_nonfinite(nonfinite)
    clouds, single = split_clouds(points)
    if not clouds:
        return SamplePlan(pb.SampleRequest(), [], [], single)
    request = pb.SampleRequest(
        lengths=[len(cloud) for cloud in clouds],
        sample_counts=check_sample_counts(m, clouds),
        start_indices=check_start_indices(start, clouds),
        method=pb.SAMPLING_METHOD_FARTHEST_POINT,
        nonfinite_policy=_NONFINITE[nonfinite],
        return_distances=True,
    )
    per_cloud = split_attributes(attributes, clouds, single)
    request.points.CopyFrom(encode(of_one_type(clouds)))
    return SamplePlan(request, clouds, per_cloud, single)


def check_nonfinite(nonfinite: str) -> None:
    """Raises InvalidArgumentError for anything but a known policy."""
    if nonfinite not in _NONFINITE:
        raise InvalidArgumentError(
            f'nonfinite must be "reject" or "ignore", got {nonfinite!r}', field="nonfinite_policy"
        )


def check_rows(rows: Array, cloud: Array) -> None:
    """Raises InternalError for indices that are not rows of the cloud."""
    if rows.min() < 0 or rows.max() >= len(cloud):
        raise InternalError(
            f"the server answered with rows {rows.min()} to {rows.max()} of {len(cloud)} points"
        )


def of_one_type(clouds: list[Array]) -> list[Array]:
    """The clouds in one little-endian type, the smallest that holds them all."""
    parts = [coordinates_for_wire(cloud) for cloud in clouds]
    widest = np.result_type(*{part.dtype for part in parts}).newbyteorder("<")
    return [part.astype(widest, copy=False) for part in parts]


def _gather(attributes: Gathered, rows: Array) -> Gathered:
    if isinstance(attributes, dict):
        return {name: values[rows] for name, values in attributes.items()}
    return None if attributes is None else attributes[rows]


def _origins(response: pb.SampleResponse, clouds: int) -> Array | None:
    if not response.HasField("origins"):
        return None
    origins = _tensors.decode(response.origins)
    if origins.shape != (clouds, 3):
        raise InternalError(
            f"the server answered with origins of shape {origins.shape}, expected ({clouds}, 3)"
        )
    return origins


def read_timings(timings: pb.Timings, call: Call) -> Timings:
    """The server's measurements, and what is left of the time since the call began."""
    total_ms = call.elapsed_ms()
    return Timings(
        queue_ms=timings.queue_ms,
        compute_ms=timings.compute_ms,
        server_ms=timings.server_ms,
        wire_ms=max(0.0, total_ms - timings.server_ms),
        total_ms=total_ms,
    )


def read_server_info(response: pb.GetServerInfoResponse) -> ServerInfo:
    """The answer of GetServerInfo in plain values."""
    limits = response.limits
    return ServerInfo(
        version=response.version,
        torch_version=response.torch_version,
        devices=tuple(Device(d.name, d.description) for d in response.devices),
        methods=tuple(_name(pb.SamplingMethod, method) for method in response.methods),
        point_types=tuple(_name(tensor_pb2.DataType, t) for t in response.point_types),
        limits=Limits(limits.message_bytes, limits.request_points, limits.request_clouds),
    )


def _name(enum: Any, value: int) -> str:
    """The name of a member without its prefix; the number where a newer server knows more."""
    if value not in enum.values():
        return str(value)
    prefix = {"SamplingMethod": "SAMPLING_METHOD_", "DataType": "DATA_TYPE_"}
    name: str = enum.Name(value)
    return name.removeprefix(prefix[enum.DESCRIPTOR.name]).lower()
