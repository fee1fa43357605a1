"""The Sample RPC: its request from checked arguments, and `Sample`s from its response."""

import operator
from collections.abc import Sequence, Sized

import numpy as np

from farpoint._arrays import (
    CloudBatch,
    check_sample_counts,
    check_start_indices,
    split_batch,
)
from farpoint._call import CallContext
from farpoint._rpcs.calls import UnaryRpc
from farpoint._rpcs.methods import (
    Method,
    PoissonDisk,
    VoxelGrid,
    check_arguments,
    check_radius,
    write_method,
)
from farpoint._rpcs.packed_batch import PackedBatch, packed_batch
from farpoint._rpcs.serialized import SerializedRequest, with_packed_data
from farpoint._shared_memory import Lease
from farpoint._tensors import Checksums, points_to_tensor, to_arrays
from farpoint._types import Array
from farpoint.errors import InternalError, InvalidArgumentError
from farpoint.results import Sample
from farpoint.v1 import sampling_pb2 as pb
from farpoint.v1 import tensor_pb2

_NONFINITE = {
    "reject": pb.NONFINITE_POLICY_REJECT,
    "ignore": pb.NONFINITE_POLICY_IGNORE,
}


class SampleRpc(UnaryRpc[pb.SampleResponse, Sample | list[Sample]]):
    """Sampling of one cloud or a batch; the arguments are those of `Client.sample`.

    Coordinates are not scanned for NaN and infinity here: the server does that anyway.

    Args:
        lease: puts large clouds into shared memory; None sends them.
        checksums: of the tensors of the answer.

    Raises:
        InvalidArgumentError: an argument is wrong.
    """

    method = operator.attrgetter("sampling.Sample")
    head: pb.SampleRequest
    """The request, without `data`."""
    data: list[memoryview]
    """Of a packed cloud, one piece after the other."""
    request: pb.SampleRequest | SerializedRequest

    def __init__(
        self,
        points: object,
        m: object,
        attributes: object = None,
        start: object = 0,
        nonfinite: str = "reject",
        lease: Lease | None = None,
        checksums: Checksums = Checksums.OFF,
        radius: float | None = None,
        method: Method | None = None,
    ) -> None:
        check_nonfinite(nonfinite)
        if method is not None:
            check_arguments(method, m, start, radius)
        packed = None if isinstance(points, np.ndarray) else packed_batch(points, attributes)
        self.batch: CloudBatch | PackedBatch = packed or split_batch(
            points, attributes, own_attributes=True
        )
        clouds = self.batch.clouds
        self.checksums = checksums
        self.head, self.data = pb.SampleRequest(), []
        self.request = self.head
        if not clouds:  # nothing to ask for
            return
        if radius is not None:
            check_radius(radius)
        unbounded = m is None and (
            radius is not None or isinstance(method, VoxelGrid | PoissonDisk)
        )
        self.head = self.request = pb.SampleRequest(
            lengths=map(len, clouds),
            sample_counts=[] if unbounded else check_sample_counts(m, clouds),
            covering_radius=radius,
            start_indices=check_start_indices(start, clouds),
            method=pb.SAMPLING_METHOD_FARTHEST_POINT,
            nonfinite_policy=_NONFINITE[nonfinite],
            return_distances=True,
            return_checksums=checksums.are_wanted,
        )
        if method is not None:
            write_method(method, self.head, len(clouds))
        if isinstance(self.batch, PackedBatch):
            self.data = self.batch.describe(self.head, lease)
            if self.data:
                self.request = with_packed_data(self.head, self.data)
            return
        arrays = self.batch.clouds
        tensor = points_to_tensor(arrays) if lease is None else lease.points_to_tensor(arrays)
        self.head.points.CopyFrom(tensor)

    def read(self, response: pb.SampleResponse, context: CallContext) -> Sample | list[Sample]:
        """One `Sample`, or a list where a batch was asked for.

        Raises:
            InternalError: the response does not fit the request.
            DataLossError: it was damaged.
        """
        self._check(response)
        is_shifted = self._is_shifted(response)
        timings = context.read_timings(response.timings)
        tensors = [response.indices, *([response.distances] * self.head.return_distances)]
        indices, *measured = to_arrays(*tensors, checksums=self.checksums)
        indices = indices.astype(np.int64)
        distances = measured[0].astype(np.float32) if measured else np.empty(0, np.float32)
        origins = self._origins(response) if is_shifted else None
        means = self._means(response) if self.head.return_points else None
        samples, end = [], 0
        clouds: Sequence[Sized] = self.batch.clouds
        for i, cloud in enumerate(clouds):
            begin, end = end, end + response.lengths[i]
            rows = indices[begin:end]
            if rows.min() < 0 or rows.max() >= len(cloud):
                raise wrong_rows(rows, cloud)
            points, attributes = self.batch.choose(i, rows)
            if means is not None:
                points = means[begin:end]
            sample = Sample(
                indices=rows,
                points=points,
                attributes=attributes,
                distances=distances[begin:end],
                timings=timings,
                origin=None if origins is None else origins[i],
                request_id=context.request_id,
            )
            samples.append(sample)
        return samples[0] if self.batch.single else samples

    def _is_shifted(self, response: pb.SampleResponse) -> bool:
        """Whether the server sampled around origins of its own, as it does in float64."""
        if not self.head.return_distances:
            return False
        if isinstance(self.batch, PackedBatch):
            return response.HasField("origins")
        return self.head.points.data_type == tensor_pb2.DATA_TYPE_FLOAT64

    def _origins(self, response: pb.SampleResponse) -> Array:
        [origins] = to_arrays(response.origins, checksums=self.checksums)
        expected = len(self.batch.clouds), 3
        if origins.shape != expected:
            raise InternalError(
                f"the server answered with origins of shape {origins.shape}, expected {expected}"
            )
        return origins

    def _means(self, response: pb.SampleResponse) -> Array:
        [means] = to_arrays(response.points, checksums=self.checksums)
        expected = sum(response.lengths), 3
        if means.shape != expected:
            raise InternalError(
                f"the server answered with means of shape {means.shape}, expected {expected}"
            )
        return means

    def _check(self, response: pb.SampleResponse) -> None:
        counts = list(self.head.sample_counts) or list(self.head.lengths)
        expected = counts * len(self.batch.clouds) if len(counts) == 1 else counts
        lengths = list(response.lengths)
        indices, distances = response.indices.shape[:1], response.distances.shape[:1]
        fits = lengths == expected
        is_most = self.head.HasField("covering_radius") or not self.head.sample_counts
        if is_most and len(lengths) == len(expected):
            fits = all(1 <= n <= most for n, most in zip(lengths, expected, strict=True))
        wanted = indices if self.head.return_distances else []
        if not fits or indices != [sum(lengths)] or distances != wanted:
            raise InternalError(
                f"the server answered with {sum(indices)} indices and {sum(distances)} distances "
                f"for clouds of {lengths} samples, expected {expected}"
            )


def check_nonfinite(nonfinite: str) -> None:
    """Raises InvalidArgumentError for anything but a known policy."""
    if nonfinite not in _NONFINITE:
        raise InvalidArgumentError(
            f'nonfinite must be "reject" or "ignore", got {nonfinite!r}', field="nonfinite_policy"
        )


def wrong_rows(rows: Array, cloud: Sized) -> InternalError:
    """For indices that are not rows of the cloud."""
    return InternalError(
        f"the server answered with rows {rows.min()} to {rows.max()} of {len(cloud)} points"
    )
