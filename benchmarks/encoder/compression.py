"""Rebuilt clouds against subsets and Draco of as many bytes."""

from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from benchmarks.encoder.registration import read
from farpoint_models import DensityEncoder, default_decoder
from farpoint_models.decoder import CODE
from farpoint_ops import knn, voxel_grid_sample

CLOUDS = ("*street_kitti*.bin", "driving*kitti.bin", "indoor*.pcd", "office*.pcd", "milk.pcd")
POINTS = 16_384
STAGES = (1, 2)
# Bytes of a point of a subset or of a sample: three coordinates of 16 bits.
PLACE = 6
NEIGHBORS = 16


def compression(encoder: DensityEncoder, folder: Path) -> dict[str, dict[str, list[float]]]:
    """By cloud and method: bytes of a point, Chamfer distance and density error."""
    found = {}
    for pattern in CLOUDS:
        cloud = read(folder, pattern)
        if cloud is None:
            continue
        rows = np.random.default_rng(0).permutation(len(cloud))[:POINTS]
        xyz = torch.from_numpy(cloud[rows])
        for stage in STAGES:
            with torch.no_grad():
                encoded = encoder(xyz[None])[stage]
                rebuilt = default_decoder(stage)(encoded.points, encoded.features, encoded.counts)
            counts = encoded.counts[0]
            size = counts.numel() * (PLACE + CODE) + int((1 + (counts > 127).int()).sum())
            methods = {"decoder": rebuilt[0][0, : len(xyz)], **others(xyz, size)}
            found[f"{pattern.strip('*')}, stage {stage + 1}"] = {
                name: [size / len(xyz), *errors(xyz, got)] for name, got in methods.items()
            }
    return found


def others(xyz: Tensor, size: int) -> dict[str, Tensor]:
    """Random and voxel subsets, and Draco's answer, of at most `size` bytes."""
    count = size // PLACE
    found = {"random subset": xyz[:count]}
    low, high = 0.0, float((xyz.amax(0) - xyz.amin(0)).max())
    for _ in range(24):
        edge = (low + high) / 2
        rows, _ = voxel_grid_sample(xyz, edge, select="nearest_mean")
        low, high = (edge, high) if len(rows) > count else (low, edge)
    found["voxel subset"] = xyz[voxel_grid_sample(xyz, high, select="nearest_mean")[0].long()]
    try:
        import DracoPy
    except ImportError:
        return found
    origin, extent = xyz.amin(0).tolist(), float((xyz.amax(0) - xyz.amin(0)).max())
    for quarter in range(4, 64):
        # A wider range than needed stands for a part of a bit.
        bits = -(-quarter // 4)
        packed = DracoPy.encode(
            xyz.numpy(),
            quantization_bits=bits,
            compression_level=10,
            quantization_range=extent * 2 ** (bits - quarter / 4),
            quantization_origin=origin,
        )
        if len(packed) > size:
            break
        found["Draco"] = torch.from_numpy(DracoPy.decode(packed).points).float()
    return found


def errors(xyz: Tensor, got: Tensor) -> list[float]:
    """Of a cloud (N, 3): Chamfer distance, the mean of both ways, in mean distances to the next
    point; and how far the distance to the 16th point is off, as the mean of |log2|."""
    nearest = [knn(a[None], b[None], 1)[1].sqrt().mean() for a, b in ((xyz, got), (got, xyz))]
    gap = knn(xyz[None], xyz[None], 2)[1][..., 1].sqrt().mean()
    reach, other = (
        knn(cloud[None], xyz[None], min(NEIGHBORS, len(cloud)))[1][0, :, -1].sqrt()
        for cloud in (xyz, got)
    )
    off = (other.clamp(min=1e-9) / reach.clamp(min=1e-9)).log2().abs().mean()
    return [float(sum(nearest) / 2 / gap), float(off)]
