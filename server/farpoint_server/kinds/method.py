"""Work of requests for a voxel grid or random rows."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Literal, NamedTuple, TypeAlias

import numpy as np
from torch import Tensor

from farpoint_ops import random_sample_ragged, voxel_grid_mean, voxel_grid_sample
from farpoint_server.compute.arrays import Array, Float32s, Float64s, Int64s, halves
from farpoint_server.compute.work import Joined, Launch, Work
from farpoint_server.kinds.sample import GPU_LAUNCH_NS, GPU_POINT_NS, MARGIN, Samples

# On one core, to within a factor of two: calling torch, and per point of a million (CPU time, a
# Xeon, a busy machine).
METHOD_NS = 300_000
POINT_NS = {"first": 170, "nearest_mean": 270, "mean": 400, "random": 170}

# Bytes per point: coordinates in float64, voxels, their numbers, sorted and back; 246 were seen.
POINT_BYTES = 256


class VoxelGrid(NamedTuple):
    """Voxel grid: one point of each occupied voxel."""

    voxel_size: float
    select: Literal["first", "nearest_mean", "mean"]
    origin: tuple[float, float, float]


class RandomRows(NamedTuple):
    """Random rows without replacement."""

    seeds: tuple[int, ...]
    """One for each cloud."""


Method: TypeAlias = VoxelGrid | RandomRows
"""A method other than farthest point sampling; it takes coordinates without a shift."""


@dataclass(frozen=True)
class MethodClouds:
    """The validated clouds of a request for another method."""

    points: Float32s | Float64s
    """Shape (P, 3)."""
    lengths: Int64s
    """Shape (B,): points of each cloud."""
    sample_counts: Int64s
    """Shape (B,): samples of each cloud, at most."""
    method: Method


@dataclass(frozen=True)
class MethodKernel:
    """A voxel grid or random rows of the clouds of one request."""

    method: Method
    lengths: tuple[int, ...]
    sample_counts: tuple[int, ...]

    def __call__(self, points: Tensor, *, cancelled: Tensor | None = None) -> Sequence[Tensor]:  # noqa: ARG002
        """Rows (S,); of a grid also their offsets (B + 1,), and means (S, 3) if wanted."""
        method, offsets = self.method, np.cumsum((0, *self.lengths)).tolist()
        if isinstance(method, RandomRows):
            return [random_sample_ragged(points, offsets, [*self.sample_counts], seed=method.seeds)]
        size, select = method.voxel_size, method.select
        grid = {"offsets": offsets, "origin": method.origin}
        if select != "mean":
            return [*voxel_grid_sample(points, size, select=select, **grid)]
        rows, ends = voxel_grid_sample(points, size, **grid)
        return [rows, ends, voxel_grid_mean(points, size, **grid)[0]]


def method_bytes(points: int) -> int:
    """Maximum bytes of a voxel grid or random rows on the device."""
    return int(MARGIN * POINT_BYTES * points)


@dataclass(eq=False)
class MethodWork(Work[Samples]):
    """One request for a voxel grid or random rows.

    It takes a few passes over its points, so batching saves nothing. Work that has started is not
    cancelled.
    """

    clouds: MethodClouds
    point_count: int = field(init=False)
    cloud_count: int = field(init=False)
    cost_key: str = field(init=False)
    """The method."""

    def __post_init__(self) -> None:
        clouds, method = self.clouds, self.clouds.method
        self.point_count, self.cloud_count = len(clouds.points), len(clouds.lengths)
        self.cost_key = "random" if isinstance(method, RandomRows) else method.select

    def cost_ns(self, device_type: str) -> int:
        if device_type == "cpu":
            return METHOD_NS + POINT_NS[self.cost_key] * self.point_count
        return GPU_LAUNCH_NS + GPU_POINT_NS * self.point_count  # mostly copies

    @classmethod
    def batch_bytes(cls, works: "Sequence[MethodWork]") -> int:
        return method_bytes(sum(work.point_count for work in works))

    @classmethod
    def launches(cls, works: "Sequence[MethodWork]") -> Sequence[Launch]:
        return [work._launch() for work in works]

    @classmethod
    def answers(
        cls,
        works: "Sequence[MethodWork]",  # noqa: ARG003
        outputs: Sequence[Sequence[Array]],
    ) -> list[Samples]:
        return [_answer(*each) for each in outputs]

    def halve(self) -> "tuple[MethodWork, MethodWork] | None":
        if self.cloud_count == 1:
            return None
        left, right = (self._part(rows, part) for rows, part in halves(self.clouds.lengths))
        return left, right

    def join(self, first: Samples, second: Samples) -> Samples:
        return first.join(second, self.point_count)

    def _launch(self) -> Launch:
        clouds = self.clouds
        lengths, counts = tuple(clouds.lengths.tolist()), tuple(clouds.sample_counts.tolist())
        return Launch(MethodKernel(clouds.method, lengths, counts), Joined([[clouds.points]]))

    def _part(self, rows: slice, part: slice) -> "MethodWork":
        clouds, method = self.clouds, self.clouds.method
        if isinstance(method, RandomRows):
            method = RandomRows(method.seeds[part])
        points, counts = clouds.points[rows], clouds.sample_counts[part]
        return replace(self, clouds=MethodClouds(points, clouds.lengths[part], counts, method))


def _answer(rows: Array, ends: Array | None = None, means: Array | None = None) -> Samples:
    return Samples(rows, None, None if ends is None else np.diff(ends), means)
