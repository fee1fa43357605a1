"""The Sample RPC: its request from checked arguments, and `Sample`s from its response."""

import operator

import numpy as np

from farpoint._arrays import (
    CloudBatch,
    check_sample_counts,
    check_start_indices,
    split_batch,
    split_rows,
)
from farpoint._connection.call import CallContext
from farpoint._connection.shared_memory import Lease
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
from farpoint._tensors import in_common_dtype, tensor_header, to_arrays, to_tensor
from farpoint._types import Array
from farpoint.errors import InternalError, InvalidArgumentError
from farpoint.results import Sample
from farpoint.v1 import sampling_pb2 as pb
from farpoint.v1 import tensor_pb2

CERTAINLY_ACCEPTED_BYTES = 1 << 20
_NONFINITE = {
    "reject": pb.NONFINITE_POLICY_REJECT,
    "ignore": pb.NONFINITE_POLICY_IGNORE,
}


class SampleRpc(UnaryRpc[pb.SampleResponse, Sample | list[Sample]]):
    """Sampling of one cloud or a batch; the arguments are those of `Client.sample`.

    Coordinates are not scanned for NaN and infinity here: the server does that anyway.

    Args:
        lease: puts large clouds into shared memory; None sends them.
        checksums: whether to request checksums in the answer.
    """

    method = operator.attrgetter("sampling.Sample")
    head: pb.SampleRequest
    """The request, without `data`."""
    data: list[memoryview]
    """Bytes of a packed cloud, in pieces."""
    request: pb.SampleRequest | SerializedRequest

    def __init__(
        self,
        points: object,
        m: object,
        attributes: object = None,
        start: object = 0,
        nonfinite: str = "reject",
        lease: Lease | None = None,
        checksums: bool = False,
        radius: float | None = None,
        method: Method | None = None,
    ) -> None:
        check_choice(m, start, nonfinite, radius, method)
        packed = None if isinstance(points, np.ndarray) else packed_batch(points, attributes)
        self.batch: CloudBatch | PackedBatch = packed or split_batch(
            points, attributes, own_attributes=True
        )
        self.checksums = checksums
        self.head, self.data = pb.SampleRequest(), []
        self.request = self.head
        if not self.batch.clouds:  # nothing to ask for
            return
        self.head = self.request = self._head(m, start, nonfinite, radius, method)
        if isinstance(self.batch, PackedBatch):
            self.data = self.batch.describe(self.head, lease)
            if self.data:
                self.request = with_packed_data(self.head, self.data)
            return
        parts = in_common_dtype(self.batch.clouds)
        region = None if lease is None else lease.share(parts)
        self.head.points.CopyFrom(to_tensor(parts) if region is None else tensor_header(parts))
        if region is not None:
            self.head.points.shared_memory.region = region

    @property
    def is_certainly_accepted(self) -> bool:
        """Whether every server takes the request in one message: no limit is that low."""
        return self.request.ByteSize() <= CERTAINLY_ACCEPTED_BYTES

    def _head(
        self, m: object, start: object, nonfinite: str, radius: float | None, method: Method | None
    ) -> pb.SampleRequest:
        """The request without its points."""
        clouds = self.batch.clouds
        unbounded = m is None and (
            radius is not None or isinstance(method, VoxelGrid | PoissonDisk)
        )
        head = pb.SampleRequest(
            lengths=map(len, clouds),
            sample_counts=[] if unbounded else check_sample_counts(m, clouds),
            covering_radius=radius,
            start_indices=check_start_indices(start, clouds),
            method=pb.SAMPLING_METHOD_FARTHEST_POINT,
            nonfinite_policy=_NONFINITE[nonfinite],
            return_distances=True,
            return_checksums=self.checksums,
        )
        if method is not None:
            write_method(method, head, len(clouds))
        return head

    def read(self, response: pb.SampleResponse, context: CallContext) -> Sample | list[Sample]:
        """One `Sample`, or a list for a batch."""
        self._check(response)
        has_distances, batch = self.head.return_distances, self.batch
        is_shifted, means = self._is_shifted(response), None
        timings = context.read_timings(response.timings)
        tensors = [response.indices, *([response.distances] * has_distances)]
        indices, *measured = to_arrays(*tensors, checksums=self.checksums)
        rows_of = split_rows(indices, response.lengths, batch.clouds)
        distances = measured[0].astype(np.float32) if measured else np.empty(0, np.float32)
        origins = self._table(response.origins, len(batch.clouds)) if is_shifted else None
        if self.head.return_points:
            means = self._table(response.points, len(indices))
        samples, end = [], 0
        for i, rows in enumerate(rows_of):
            begin, end = end, end + len(rows)
            points, attributes = batch.choose(i, rows)
            sample = Sample(
                indices=rows,
                points=points if means is None else means[begin:end],
                attributes=attributes,
                distances=distances[begin:end],
                timings=timings,
                origin=None if origins is None else origins[i],
                request_id=context.request_id,
            )
            samples.append(sample)
        return samples[0] if batch.single else samples

    def _is_shifted(self, response: pb.SampleResponse) -> bool:
        """Whether the server shifts the clouds to origins, as it does with float64."""
        if not self.head.return_distances:
            return False
        if isinstance(self.batch, PackedBatch):
            return response.HasField("origins")
        return self.head.points.data_type == tensor_pb2.DATA_TYPE_FLOAT64

    def _table(self, tensor: tensor_pb2.Tensor, rows: int) -> Array:
        """Coordinates (rows, 3) next to the indices: origins of the clouds, or means of voxels."""
        [values] = to_arrays(tensor, checksums=self.checksums)
        if values.shape != (rows, 3):
            raise InternalError(
                f"the server answered with coordinates of shape {values.shape}, expected {rows, 3}"
            )
        return values

    def _check(self, response: pb.SampleResponse) -> None:
        counts = list(self.head.sample_counts) or list(self.head.lengths)
        expected = counts * len(self.batch.clouds) if len(counts) == 1 else counts
        lengths = list(response.lengths)
        indices, distances = response.indices.shape, response.distances.shape
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


def check_choice(
    m: object, start: object, nonfinite: str, radius: float | None, method: Method | None
) -> None:
    """Raises InvalidArgumentError for arguments that are invalid for every cloud."""
    if nonfinite not in _NONFINITE:
        raise InvalidArgumentError(
            f'nonfinite must be "reject" or "ignore", got {nonfinite!r}', field="nonfinite_policy"
        )
    if method is not None:
        check_arguments(method, m, start, radius)
    if radius is not None:
        check_radius(radius)
