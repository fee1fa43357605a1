"""Share of right matches between two views by nearest features: the encoder's and FPFH."""

from collections.abc import Callable, Iterable, Mapping

import numpy as np
import torch

from benchmarks.encoder.recordings import Pair, Rows
from farpoint_models import DensityEncoder
from farpoint_ops import furthest_point_sample, knn
from farpoint_training.contrast import matched

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
