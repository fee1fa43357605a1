"""Work of Sample requests: arrays of a batch, the kernel, and samples of each request."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import ClassVar, NamedTuple

import numpy as np
import torch
from torch import Tensor

import farpoint_ops  # noqa: F401  registers the ops
from farpoint_server.compute.arrays import (
    Array,
    Float32s,
    Float64s,
    Int32s,
    Int64s,
    Layout,
    concatenated,
    halves,
    joined,
)
from farpoint_server.compute.transfer.library import SampleBatch
from farpoint_server.compute.work import Joined, Launch, StreamKernel, Work, run_on_cpu

# Time of the CPU kernel, to within a factor of two: the kernel's own estimate, by which it chooses
# the number of threads, for scans, surfaces and noise, alone or a thousand clouds at once.
POINT_NS, SAMPLE_NS = 15, 200
# A covering radius may need one of so many samples that its request allows. Work that takes longer
# gives up the event loop, and measured batches correct the estimate.
TO_RADIUS = 8
# The same for an H100 in a virtual machine; measured batches correct it (compute/cost.py).
# Threads, launches and events; 12 bytes a point, staged and copied; a sample of the longest cloud,
# since its samples follow one another and clouds do not.
GPU_LAUNCH_NS, GPU_POINT_NS, GPU_SAMPLE_NS = 900_000, 5, 400
# Of these, what is left in one call of C++ on an H200, and of a point.
DIRECT_LAUNCH_NS, DIRECT_POINT_NS = 30_000, 1
# Both caching allocators round sizes up to this; a prediction is more than that by a margin.
ROUNDING, MARGIN = 512, 1.25
# Bytes per point: coordinates, distance to the samples, order in which a large cloud is searched.
POINT_TENSORS = (12, 4, 16)
# Bytes per sample: row, distance, and the coordinates of the copy that goes back.
SAMPLE_TENSORS = (4, 4, 12)
CLOUD_BYTES = 3 * 8


# Not frozen: that takes four times as long to make, and every request makes one.
@dataclass(eq=False)
class Clouds:
    """The validated clouds of one request, concatenated."""

    points: Float32s
    """Shape (P, 3)."""
    lengths: Int64s
    """Shape (B,): points of each cloud."""
    sample_counts: Int64s
    """Shape (B,): samples of each cloud, with a covering radius at most."""
    starts: Int64s
    """Shape (B,): row of each cloud, from its own first row, that is chosen first."""
    with_distances: bool = False
    covering_radius: float | None = None
    """Stop criterion of each cloud; None for its number of samples alone."""


class Samples(NamedTuple):
    """The answer to one request: its S samples, cloud after cloud."""

    rows: Int32s
    """Shape (S,): rows of the clouds' points."""
    distances: Float32s | None
    """Shape (S,): covering radius of each prefix; None if not asked for."""
    counts: Int64s | None = None
    """Shape (B,): samples of each cloud where the points decided; None for as asked."""
    points: Float32s | Float64s | None = None
    """Shape (S, 3): points of the answer, if they are not rows of the cloud."""

    def join(self, second: "Samples", points: int) -> "Samples":
        """The answer to a request from those to its halves, of which the first has `points`."""
        return concatenated([self, second._replace(rows=second.rows + np.int32(points))])


_INDEX, _DISTANCE = np.dtype(np.int32), np.dtype(np.float32)


# Not frozen: that takes four times as long to make, and every batch makes one.
@dataclass
class SampleKernel(StreamKernel):
    """Farthest point sampling of clouds of any length in one launch."""

    points: int
    """Of all clouds."""
    clouds: int

    samples: int
    """Of all clouds."""
    longest: int
    """Points of the longest cloud."""
    most: int
    """Most samples of a cloud."""
    with_distances: bool
    budget_ns: int = 0
    """Nanoseconds after which cancellable sampling gives up, without rows; 0 is without limit."""

    def __call__(
        self,
        points: Tensor,
        offsets: Tensor,
        sample_offsets: Tensor,
        starts: Tensor,
        radii: Tensor | None = None,
        *,
        cancelled: Tensor | None = None,
    ) -> Sequence[Tensor]:
        """Rows (S,), and distances (S,) if any request wants them.

        Args:
            points: float32 (P, 3).
            offsets: int64 (B + 1,), first point of each cloud.
            sample_offsets: int64 (B + 1,), first sample of each cloud.
            starts: int64 (B,), row of each cloud that is chosen first.
            radii: float32 (B,), where each cloud ends, negative for none; None if none has one.
            cancelled: int32 (B,); clouds whose flag is nonzero are left unfinished.
        """
        ops, with_distances = torch.ops.farpoint, self.with_distances
        clouds = points, offsets, sample_offsets, starts, self.samples
        if cancelled is None:
            outputs = ops.furthest_point_sample_ragged(
                *clouds, self.longest, self.most, with_distances, radii
            )
        else:
            outputs = ops._furthest_point_sample_cancellable(
                *clouds, cancelled, with_distances, radii, self.budget_ns
            )
        rows, distances = outputs
        return (rows, distances) if with_distances else (rows,)

    @property
    def predicted_ns(self) -> int:
        return DIRECT_LAUNCH_NS + DIRECT_POINT_NS * self.points + GPU_SAMPLE_NS * self.most

    def layouts(self) -> Sequence[Layout]:
        rows, distances = (Layout(dtype, (self.samples,)) for dtype in (_INDEX, _DISTANCE))
        return (rows, distances) if self.with_distances else (rows,)

    def batch(self, inputs: Sequence[int], outputs: Sequence[int]) -> SampleBatch:
        points, offsets, sample_offsets, starts, *radii = inputs
        return SampleBatch(
            points=points,
            offsets=offsets,
            sample_offsets=sample_offsets,
            starts=starts,
            radii=radii[0] if radii else -1,
            distances=outputs[1] if self.with_distances else -1,
            rows=self.points,
            samples=self.samples,
            clouds=self.clouds,
            max_points=self.longest,
            max_samples=self.most,
        )


# Not frozen: that takes four times as long to make, and every request makes one.
@dataclass(eq=False)
class SampleWork(Work[Samples]):
    """One Sample request; waiting ones run as one launch."""

    clouds: Clouds
    point_count: int = field(init=False)
    cloud_count: int = field(init=False)
    cost_key: str = field(init=False)
    _cpu_ns: int = field(init=False)
    batch_key: ClassVar[str] = "sample"
    begins_on_loop: ClassVar[bool] = True

    def __post_init__(self) -> None:
        clouds = self.clouds
        self.point_count, self.cloud_count = len(clouds.points), len(clouds.lengths)
        samples, self.cost_key = _sample_count(clouds), "sample"
        if clouds.covering_radius is not None:  # which has a time of its own for as many points
            samples, self.cost_key = samples // TO_RADIUS, "sample to a radius"
        self._cpu_ns = POINT_NS * self.point_count + SAMPLE_NS * samples

    def cost_ns(self, device_type: str) -> int:
        if device_type == "cpu":
            return self._cpu_ns
        return gpu_ns(self.point_count, int(self.clouds.sample_counts.max()))

    def inline(self, budget_ns: int) -> Samples | None:
        ((kernel, inputs),) = self.launches([self])
        assert isinstance(kernel, SampleKernel)
        launch = Launch(replace(kernel, budget_ns=budget_ns), inputs)
        outputs = run_on_cpu(launch, np.zeros(self.cloud_count, np.int32))
        return self.answers([self], [outputs])[0] if len(outputs[0]) else None

    @classmethod
    def batch_bytes(cls, works: "Sequence[SampleWork]") -> int:
        points = sum([work.point_count for work in works])
        clouds = sum([work.cloud_count for work in works])
        return sample_bytes(points, clouds, sum([_sample_count(work.clouds) for work in works]))

    @classmethod
    def launches(cls, works: "Sequence[SampleWork]") -> Sequence[Launch]:
        requests = [work.clouds for work in works]
        offsets = _offsets([clouds.lengths for clouds in requests])
        sample_offsets = _offsets([clouds.sample_counts for clouds in requests])
        longest, most = (int(np.diff(ends).max()) for ends in (offsets, sample_offsets))
        with_distances = any(clouds.with_distances for clouds in requests)
        arrays: list[Sequence[Array]] = [
            [clouds.points for clouds in requests],
            [offsets],
            [sample_offsets],
            [np.ascontiguousarray(joined([clouds.starts for clouds in requests]))],
        ]
        if any(clouds.covering_radius is not None for clouds in requests):
            arrays.append([_radii(requests)])
        kernel = SampleKernel(
            points=int(offsets[-1]),
            clouds=len(offsets) - 1,
            samples=int(sample_offsets[-1]),
            longest=longest,
            most=most,
            with_distances=with_distances,
        )
        return [Launch(kernel, Joined(arrays))]

    @classmethod
    def answers(
        cls, works: "Sequence[SampleWork]", outputs: Sequence[Sequence[Array]]
    ) -> list[Samples]:
        ((rows, *distances),) = outputs
        requests = [work.clouds for work in works]
        return _split(requests, rows, distances[0] if distances else None)

    def halve(self) -> "tuple[SampleWork, SampleWork] | None":
        if self.cloud_count == 1:
            return None
        left, right = (_part(self.clouds, *part) for part in halves(self.clouds.lengths))
        return SampleWork(left), SampleWork(right)

    def join(self, first: Samples, second: Samples) -> Samples:
        return first.join(second, self.point_count)


def gpu_ns(points: int, most_samples: int) -> int:
    """Predicted nanoseconds on an idle GPU with copies."""
    return GPU_LAUNCH_NS + GPU_POINT_NS * points + GPU_SAMPLE_NS * most_samples


def one_point() -> Clouds:
    """A cloud of one point, for a first launch."""
    one = np.ones(1, np.int64)
    return Clouds(np.zeros((1, 3), np.float32), one, one, one - 1)


# Cached: streams repeat their sizes.
@lru_cache(1024)
def sample_bytes(points: int, clouds: int, samples: int) -> int:
    """Maximum bytes on the device, including inputs and answers."""
    tensors = [points * size for size in POINT_TENSORS]
    tensors += [samples * size for size in SAMPLE_TENSORS]
    tensors.append(clouds * CLOUD_BYTES)
    return int(MARGIN * sum(-(-size // ROUNDING) * ROUNDING for size in tensors))


def _sample_count(clouds: Clouds) -> int:
    """Number of samples of all clouds together."""
    counts = clouds.sample_counts
    return int(counts[0]) if len(counts) == 1 else int(counts.sum())


def _part(clouds: Clouds, rows: slice, part: slice) -> Clouds:
    """A part of a request: some clouds, with these rows."""
    return replace(
        clouds,
        points=clouds.points[rows],
        lengths=clouds.lengths[part],
        sample_counts=clouds.sample_counts[part],
        starts=clouds.starts[part],
    )


def _radii(requests: Sequence[Clouds]) -> Float32s:
    """Stop radius of each cloud; negative if it has none."""
    given = [-1.0 if c.covering_radius is None else c.covering_radius for c in requests]
    return np.repeat(np.array(given, np.float32), [len(c.lengths) for c in requests])


def _offsets(parts: Sequence[Int64s]) -> Int64s:
    lengths = joined(parts)
    offsets = np.zeros(len(lengths) + 1, np.int64)
    lengths.cumsum(out=offsets[1:])
    return offsets


def _split(requests: Sequence[Clouds], rows: Int32s, distances: Float32s | None) -> list[Samples]:
    """Gives each request its own samples, with rows counted from its own first point."""
    if len(requests) == 1:
        return [_ended(requests[0], Samples(rows, distances))]
    samples = []
    point = sample = 0
    for clouds in requests:
        part = slice(sample, sample + int(clouds.sample_counts.sum()))
        own = distances[part] if distances is not None and clouds.with_distances else None
        ended = _ended(clouds, Samples(rows[part], own))
        samples.append(ended._replace(rows=ended.rows - np.int32(point)))
        point += len(clouds.points)
        sample = part.stop
    return samples


def _ended(clouds: Clouds, samples: Samples) -> Samples:
    """Removes the places after the sample at which a covering radius ended a cloud."""
    if clouds.covering_radius is None:
        return samples
    kept = samples.rows >= 0
    first_places = clouds.sample_counts.cumsum() - clouds.sample_counts
    distances = None if samples.distances is None else samples.distances[kept]
    counts = np.add.reduceat(kept, first_places, dtype=np.int64)
    return Samples(samples.rows[kept], distances, counts)
