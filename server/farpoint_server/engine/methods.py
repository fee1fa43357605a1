"""Requests for a voxel grid or random rows: what they cost, and how they run on a device."""

from collections.abc import Sequence
from concurrent.futures import Future
from dataclasses import dataclass, replace

import numpy as np
import torch

from farpoint_ops import random_sample_ragged, voxel_grid_mean, voxel_grid_sample
from farpoint_server.engine.sample import GPU_LAUNCH_NS, GPU_POINT_NS, MARGIN
from farpoint_server.engine.transfer.buffers import Array
from farpoint_server.engine.transfer.pipeline import Pipeline
from farpoint_server.engine.types import MethodClouds, RandomRows, Samples, SoloWork, halves

# On one core, to within a factor of two: calling torch, and per point of a million (CPU time, a
# Xeon, a busy machine).
METHOD_NS = 300_000
POINT_NS = {"first": 170, "nearest_mean": 270, "mean": 400, "random": 170}

# Bytes per point: coordinates in float64, voxels, their numbers, sorted and back; 246 were seen.
POINT_BYTES = 256


def method_bytes(points: int) -> int:
    """Maximum bytes of a voxel grid or random rows on the device."""
    return int(MARGIN * POINT_BYTES * points)


@dataclass(frozen=True)
class MethodWork(SoloWork[Samples]):
    """One request for a voxel grid or random rows.

    It takes a few passes over its points, so batching saves nothing.
    """

    clouds: MethodClouds

    @property
    def cost_key(self) -> str:
        """The method."""
        method = self.clouds.method
        return "random" if isinstance(method, RandomRows) else method.select

    @property
    def point_count(self) -> int:
        return len(self.clouds.points)

    @property
    def cost_ns(self) -> int:
        return METHOD_NS + POINT_NS[self.cost_key] * self.point_count

    @property
    def gpu_cost_ns(self) -> int:
        """The same on a GPU, mostly for copies of points."""
        return GPU_LAUNCH_NS + GPU_POINT_NS * self.point_count

    @property
    def predicted_bytes(self) -> int:
        return method_bytes(self.point_count)

    def halve(self) -> "tuple[MethodWork, MethodWork] | None":
        """Two requests of about as many clouds; None for a single cloud."""
        if len(self.clouds.lengths) == 1:
            return None
        left, right = (self._part(rows, part) for rows, part in halves(self.clouds.lengths))
        return left, right

    def _part(self, rows: slice, part: slice) -> "MethodWork":
        clouds, method = self.clouds, self.clouds.method
        if isinstance(method, RandomRows):
            method = RandomRows(method.seeds[part])
        points, counts = clouds.points[rows], clouds.sample_counts[part]
        return replace(self, clouds=MethodClouds(points, clouds.lengths[part], counts, method))

    def join(self, first: Samples, second: Samples) -> Samples:
        return first.join(second, self.point_count)

    def run(
        self,
        device: torch.device,  # noqa: ARG002
        pipeline: Pipeline | None,
    ) -> "list[Samples] | Future[list[Samples]]":
        """Its samples. Work that has started is not cancelled."""
        if self.cancelled[0]:
            return [Samples(np.empty(0, np.int32), None)]
        if pipeline is not None:
            return pipeline.submit([[self.clouds.points]], self._choose, self._answer)
        with torch.inference_mode():
            outputs = self._choose(torch.from_numpy(self.clouds.points))
        return self._answer([output.numpy() for output in outputs])

    def _choose(self, points: torch.Tensor) -> list[torch.Tensor]:
        """Rows (S,); of a grid also their offsets (B + 1,), and means (S, 3) if wanted."""
        clouds, method = self.clouds, self.clouds.method
        offsets = [0, *clouds.lengths.cumsum().tolist()]
        if isinstance(method, RandomRows):
            counts = clouds.sample_counts.tolist()
            return [random_sample_ragged(points, offsets, counts, seed=method.seeds)]
        size, origin, select = method.voxel_size, method.origin, method.select
        if select != "mean":
            chosen = voxel_grid_sample(points, size, offsets=offsets, origin=origin, select=select)
            return [*chosen]
        rows, ends = voxel_grid_sample(points, size, offsets=offsets, origin=origin)
        return [rows, ends, voxel_grid_mean(points, size, offsets=offsets, origin=origin)[0]]

    def _answer(self, outputs: Sequence[Array]) -> list[Samples]:
        counts = np.diff(outputs[1]) if len(outputs) > 1 else None
        means = outputs[2] if len(outputs) > 2 else None
        return [Samples(outputs[0], None, counts, means)]
