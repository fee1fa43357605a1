"""The Sample RPC: its request from checked arguments, and `Sample`s from its response."""

import operator
from collections.abc import Iterator, Sequence, Sized
from typing import Any

import numpy as np

from farpoint._arrays import Array, CloudBatch, split_batch
from farpoint._checksums import Checksums
from farpoint._rpcs.calls import CallContext, UnaryRpc
from farpoint._shared_memory import Lease
from farpoint._tensors import points_to_tensor, to_arrays
from farpoint.errors import InternalError, InvalidArgumentError
from farpoint.packed.batch import PackedBatch, packed_batch
from farpoint.results import Sample
from farpoint.v1 import sampling_pb2 as pb
from farpoint.v1 import tensor_pb2

_NONFINITE = {
    "reject": pb.NONFINITE_POLICY_REJECT,
    "ignore": pb.NONFINITE_POLICY_IGNORE,
}


class SampleRpc(UnaryRpc[pb.SampleResponse, Sample | list[Sample]]):
    """Farthest point sampling of one cloud or a batch; the arguments are those of `Client.sample`.

    Coordinates are not scanned for NaN and infinity here: the server does that anyway.

    Args:
        lease: puts large clouds into shared memory; None sends them.
        checksums: of the tensors of the answer.

    Raises:
        InvalidArgumentError: an argument is wrong.
    """

    method = operator.attrgetter("sampling.Sample")
    request: pb.SampleRequest

    def __init__(
        self,
        points: object,
        m: object,
        attributes: object = None,
        start: object = 0,
        nonfinite: str = "reject",
        lease: Lease | None = None,
        checksums: Checksums = Checksums.OFF,
    ) -> None:
        check_nonfinite(nonfinite)
        packed = packed_batch(points, attributes)
        self.batch: CloudBatch | PackedBatch = packed or split_batch(
            points, attributes, own_attributes=True
        )
        clouds = self.batch.clouds
        self.checksums = checksums
        self.request = pb.SampleRequest()
        if not clouds:  # nothing to ask for
            return
        self.request = pb.SampleRequest(
            lengths=[len(cloud) for cloud in clouds],
            sample_counts=_check_sample_counts(m, clouds),
            start_indices=_check_start_indices(start, clouds),
            method=pb.SAMPLING_METHOD_FARTHEST_POINT,
            nonfinite_policy=_NONFINITE[nonfinite],
            return_distances=True,
            return_checksums=checksums.are_wanted,
        )
        if isinstance(self.batch, PackedBatch):
            self.batch.write(self.request, lease)
            return
        arrays = self.batch.clouds
        tensor = points_to_tensor(arrays) if lease is None else lease.points_to_tensor(arrays)
        self.request.points.CopyFrom(tensor)

    def read(self, response: pb.SampleResponse, context: CallContext) -> Sample | list[Sample]:
        """One `Sample`, or a list where a batch was asked for.

        Raises:
            InternalError: the response does not fit the request.
            DataLossError: it was damaged.
        """
        samples = list(self._samples(response, context))
        return samples[0] if self.batch.single else samples

    def _samples(self, response: pb.SampleResponse, context: CallContext) -> Iterator[Sample]:
        indices, distances = self._arrays(response.indices, response.distances)
        indices, distances = indices.astype(np.int64), distances.astype(np.float32)
        origins = self._origins(response)
        self._check(response, indices, distances)
        timings = context.read_timings(response.timings)
        end = 0
        clouds: Sequence[Sized] = self.batch.clouds
        for i, cloud in enumerate(clouds):
            begin, end = end, end + response.lengths[i]
            rows = indices[begin:end]
            check_rows(rows, cloud)
            points, attributes = self.batch.choose(i, rows)
            yield Sample(
                indices=rows,
                points=points,
                attributes=attributes,
                distances=distances[begin:end],
                timings=timings,
                origin=None if origins is None else origins[i],
                request_id=context.request_id,
            )

    def _arrays(self, *tensors: tensor_pb2.Tensor) -> list[Array]:
        return to_arrays(*tensors, checksums=self.checksums)

    def _origins(self, response: pb.SampleResponse) -> Array | None:
        if isinstance(self.batch, PackedBatch):
            is_shifted = response.HasField("origins")
        else:
            is_shifted = self.request.points.data_type == tensor_pb2.DATA_TYPE_FLOAT64
        if not is_shifted:
            return None
        [origins] = self._arrays(response.origins)
        expected = len(self.batch.clouds), 3
        if origins.shape != expected:
            raise InternalError(
                f"the server answered with origins of shape {origins.shape}, expected {expected}"
            )
        return origins

    def _check(self, response: pb.SampleResponse, indices: Array, distances: Array) -> None:
        counts = list(self.request.sample_counts)
        expected = counts * len(self.batch.clouds) if len(counts) == 1 else counts
        lengths = list(response.lengths)
        if lengths != expected or not len(indices) == len(distances) == sum(lengths):
            raise InternalError(
                f"the server answered with {len(indices)} indices and {len(distances)} distances "
                f"for clouds of {lengths} samples, expected {expected}"
            )


def check_nonfinite(nonfinite: str) -> None:
    """Raises InvalidArgumentError for anything but a known policy."""
    if nonfinite not in _NONFINITE:
        raise InvalidArgumentError(
            f'nonfinite must be "reject" or "ignore", got {nonfinite!r}', field="nonfinite_policy"
        )


def check_rows(rows: Array, cloud: Sized) -> None:
    """Raises InternalError for indices that are not rows of the cloud."""
    if rows.min() < 0 or rows.max() >= len(cloud):
        raise InternalError(
            f"the server answered with rows {rows.min()} to {rows.max()} of {len(cloud)} points"
        )


def _check_sample_counts(m: object, clouds: Sequence[Sized]) -> list[int]:
    """One count for all clouds or one per cloud, as the request states them."""
    counts = _whole_numbers(m, len(clouds), "m", "sample_counts")
    for i, (cloud, count) in enumerate(zip(clouds, _spread(counts, clouds), strict=True)):
        if not 1 <= count <= len(cloud):
            raise InvalidArgumentError(
                f"m must be from 1 to the {len(cloud)} points of cloud {i}, got {count}",
                field=f"sample_counts[{i}]",
            )
    return counts


def _check_start_indices(start: object, clouds: Sequence[Sized]) -> list[int]:
    """One start row for all clouds or one per cloud, as the request states them."""
    starts = _whole_numbers(start, len(clouds), "start", "start_indices")
    for i, (cloud, row) in enumerate(zip(clouds, _spread(starts, clouds), strict=True)):
        if not 0 <= row < len(cloud):
            raise InvalidArgumentError(
                f"start must be a row from 0 to {len(cloud) - 1} of cloud {i}, got {row}",
                field=f"start_indices[{i}]",
            )
    return starts


def _spread(values: list[int], clouds: Sequence[Sized]) -> list[int]:
    return values * len(clouds) if len(values) == 1 else values


def _whole_numbers(value: Any, clouds: int, name: str, field: str) -> list[int]:
    try:
        numbers = [operator.index(v) for v in (value if np.ndim(value) else [value])]
    except (TypeError, ValueError) as error:
        raise InvalidArgumentError(
            f"{name} must be a whole number, or a list of one per cloud, got {value!r}", field=field
        ) from error
    if np.ndim(value) > 1 or (np.ndim(value) and len(numbers) != clouds):
        raise InvalidArgumentError(
            f"{name} must be one number or one per cloud ({clouds}), got {len(numbers)}",
            field=field,
        )
    return numbers
