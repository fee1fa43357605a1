"""Right matches by nearest features between two views of recorded clouds: the encoder and FPFH."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import torch

import farpoint
from farpoint_models import DensityEncoder
from farpoint_ops import furthest_point_sample, knn
from farpoint_training.contrast import matched
from farpoint_training.sources import rotation

Rows = npt.NDArray[np.float32]
POINTS = 8192
# Scans of one place, a moment apart: the sensor moved less than 0.2 m. An array follows a colon.
CONSECUTIVE = {
    "street, OS1-128": ("*street_kitti*.bin", "*street_organized*.npy"),
    "street, OS1-128, whole": ("driving*kitti.bin", "driving*organised.npy"),
    "street, OS0-8": ("*ten_scans*.npz:scan0", "*ten_scans*.npz:scan6"),
}
# Clouds that two views are made of: the axis and the points of a view are drawn.
SINGLE = ("vehicle_lidar*", "car_cloud*", "indoor*", "office*", "room*", "milk*")
SHOWN = 0.8


class Pair(NamedTuple):
    """Two views of a place, in its frame, and the same rotation of the other for each caller."""

    name: str
    one: Rows
    other: Rows
    turn: Rows


def read(folder: Path, pattern: str) -> Rows | None:
    """Distinct points around the first, float32, sorted; None where there is no such file."""
    pattern, _, array = pattern.partition(":")
    for path in sorted(folder.glob(pattern)):
        points = farpoint.io.read_cloud(path, array=array or None).points
        points = points[np.isfinite(points).all(1) & points.any(1)].astype(np.float64)
        return np.unique(points, axis=0).astype(np.float32)
    return None


def pairs(folder: Path) -> Iterator[Pair]:
    """Pairs of scans, up to POINTS each; two pairs of views of each single cloud."""
    rng = np.random.default_rng(0)
    for name, patterns in CONSECUTIVE.items():
        one, other = (read(folder, pattern) for pattern in patterns)
        if one is not None and other is not None:
            yield pair(name, one, other, rng)
    for pattern in SINGLE:
        cloud = read(folder, pattern)
        for _ in range(0 if cloud is None else 2):
            mixed = rng.permutation(cloud)
            along = mixed @ rng.normal(size=3)
            low, high = np.quantile(along, [1 - SHOWN, SHOWN])
            half = np.arange(len(mixed)) < len(mixed) // 2
            views = mixed[half & (along < high)], mixed[~half & (along > low)]
            yield pair(pattern.rstrip("*"), *views, rng)


def pair(name: str, one: Rows, other: Rows, rng: np.random.Generator) -> Pair:
    """Random rows of both, around one origin."""
    origin = one.mean(0)
    one, other = (rng.permutation(cloud)[:POINTS] - origin for cloud in (one, other))
    return Pair(name, one, other, rotation(rng).astype(np.float32))


STAGES = (1, 2)
# Of FPFH: points for each sample that it sees, and radius in spacings of the samples. The best of
# them is taken for each stage.
FPFH = ((16, 1.5), (16, 3.0), (4, 2.0), (4, 3.0), (4, 5.0), (4, 8.0))
# For each stage, samples and their features.
Describe = Callable[[Rows], list[tuple[Rows, Rows]]]


def learned(encoder: DensityEncoder) -> Describe:
    """The encoder's features that a rotation does not change, or all where there are none."""
    channels = encoder.config.invariant or encoder.config.channels

    def describe(points: Rows) -> list[tuple[Rows, Rows]]:
        with torch.no_grad():
            encoded = encoder(torch.from_numpy(points)[None])
        kept = [encoded[stage] for stage in STAGES]
        return [(s.points[0].numpy(), s.features[0, :channels].T.numpy()) for s in kept]

    return describe


def fpfh(density: int, radius: float) -> Describe:
    """FPFH of Open3D at the same samples, in the cloud thinned by farthest point sampling."""
    import open3d

    def describe(points: Rows) -> list[tuple[Rows, Rows]]:
        found = []
        for stage in STAGES:
            count = -(-len(points) // 4 ** (stage + 1))
            seen = min(density * count, len(points))
            rows = furthest_point_sample(torch.from_numpy(points)[None], seen)[0].numpy()
            thinned = points[rows]
            reach = radius * spacing(thinned[:count])
            places = open3d.utility.Vector3dVector(thinned.astype(np.float64))
            cloud = open3d.geometry.PointCloud(places)
            cloud.estimate_normals(open3d.geometry.KDTreeSearchParamHybrid(0.5 * reach, 30))
            search = open3d.geometry.KDTreeSearchParamRadius(reach)
            features = open3d.pipelines.registration.compute_fpfh_feature(cloud, search).data
            found.append((thinned[:count], np.asarray(features.T[:count], np.float32)))
        return found

    return describe


def spacing(points: Rows) -> float:
    """Median distance to the next point."""
    cloud = torch.from_numpy(points)[None]
    return float(knn(cloud, cloud, 2)[1][..., 1].sqrt().median())


def shares(describe: Describe, pair: Pair) -> list[float]:
    """For each stage, of the samples with a like in the other view, those matched with one."""
    found = []
    views = describe(pair.one), describe(np.ascontiguousarray(pair.other @ pair.turn))
    for (places, features), (turned, others) in zip(*views, strict=True):
        back = np.ascontiguousarray(turned @ pair.turn.T)
        one, other, here, there = (
            torch.from_numpy(a)[None] for a in (features, others, places, back)
        )
        found.append(matched(one.mT, other.mT, here, there))
    return found


def means(describe: Describe, pairs: Iterable[Pair]) -> dict[str, list[float]]:
    """By name, for each stage, the mean over the pairs of that name; and the mean of all names."""
    found: dict[str, list[list[float]]] = {}
    for pair in pairs:
        found.setdefault(pair.name, []).append(shares(describe, pair))
    rows = {name: np.mean(values, 0).tolist() for name, values in found.items()}
    return {**rows, "mean": np.mean(list(rows.values()), 0).tolist()}


def registration(
    encoders: Mapping[str, DensityEncoder], pairs: Iterable[Pair]
) -> dict[str, dict[str, list[float]]]:
    """By describer; FPFH where Open3D is installed, of each radius."""
    pairs = list(pairs)
    found = {name: means(learned(encoder), pairs) for name, encoder in encoders.items()}
    try:
        for density, radius in FPFH:
            name = f"FPFH, {density} points a sample, radius {radius}"
            found[name] = means(fpfh(density, radius), pairs)
    except ImportError as missing:
        print(f"FPFH is not measured: {missing}")
    return found
