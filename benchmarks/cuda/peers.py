"""CUDA farthest point sampling of other packages, where they are installed."""

from collections.abc import Callable
from typing import Any

import torch

from benchmarks.common.report import missing, module
from benchmarks.cuda.timing import Sampler

Samplers = dict[str, Sampler]


def _cluster(package: Any) -> Samplers:
    def sample(xyz: torch.Tensor, m: int) -> Any:
        batch, n, _ = xyz.shape
        owner = torch.arange(batch, device=xyz.device).repeat_interleave(n)
        return package.fps(xyz.flatten(0, 1), owner, ratio=m / n, random_start=False)

    return {"torch_cluster": sample}


def _pytorch3d(package: Any) -> Samplers:
    return {"pytorch3d": lambda xyz, m: package.sample_farthest_points(xyz, K=m)}


def _quickfps(package: Any) -> Samplers:
    """With the tree that is its own default, and with buckets of 32 points."""

    def sample(xyz: torch.Tensor, m: int, height: int) -> Any:
        return package.sample_idx(xyz, m, h=height, start_idx=0)

    def fine(xyz: torch.Tensor, m: int) -> Any:
        return sample(xyz, m, max(1, min(12, (xyz.size(1) // 32).bit_length() - 1)))

    return {"torch_quickfps": lambda xyz, m: sample(xyz, m, 5), "torch_quickfps_fine": fine}


def _kaolin(package: Any) -> Samplers:
    """Begins at the row farthest out."""
    return {"kaolin": package.farthest_point_sampling}


MAKERS: dict[str, Callable[[Any], Samplers]] = {
    "torch_cluster": _cluster,
    "pytorch3d.ops": _pytorch3d,
    "torch_quickfps": _quickfps,
    "kaolin.ops.pointcloud": _kaolin,
}


def samplers() -> Samplers:
    """The peers at hand; one that does not load is reported and left out."""
    found: Samplers = {}
    for name, make in MAKERS.items():
        if package := module(name):
            found |= make(package)
    for name, why in missing(MAKERS).items():
        print(f"{name}: left out, {why}")
    return found
