"""Real point clouds for tests: those in tests/data, and larger ones next to the checkout.

The larger ones are an optional extra: a `shared/data` folder next to the checkout, which
tests/data/README.md describes. A test that asks for one is skipped without, in CI too.
"""

from pathlib import Path

import numpy as np
import pytest

DATA = Path(__file__).resolve().parents[1] / "data"
LARGER_DATA = Path(__file__).resolve().parents[3] / "shared" / "data"
LARGER = frozenset(
    {
        "autzen_trim.laz",
        "cad_featuretype.ply",
        "car6.pcd",
        "car_cloud400.csv",
        "cturtle.pcd",
        "driving_os1_128_map.ply",
        "driving_os1_128_scan0_kitti.bin",
        "driving_os1_128_scan1_organised.npy",
        "epsg_4326.las",
        "image_lattice_1_4.las",
        "indoor_fragment_rgb_normals.pcd",
        "min_cut_street_ascii.pcd",
        "office_kinect_organised.pcd",
        "room_scan1_half_duplicates.pcd",
        "spot_cow.obj",
        "terrain_samp11_utm.pcd",
        "vehicle_lidar_target.ply",
    }
)


def cloud_file(name: str) -> Path:
    """Path of a cloud in tests/data, or of one of LARGER, without which the test is skipped."""
    if name not in LARGER:
        return DATA / name
    path = LARGER_DATA / name
    if not path.exists():
        pytest.skip(f"optional extra: {name} is not in shared/data next to the checkout")
    return path


def _kitti(name: str) -> np.ndarray:
    return np.fromfile(cloud_file(name), "<f4").reshape(-1, 4)


def street_scan() -> np.ndarray:
    """Each fourth point of `whole_street_scan`: float32 (26912, 4)."""
    return _kitti("street_kitti_part.bin")


def whole_street_scan() -> np.ndarray:
    """A street seen by a 128-beam LiDAR: float32 (107647, 4), x y z intensity."""
    return _kitti("driving_os1_128_scan0_kitti.bin")


def ten_scans() -> list[np.ndarray]:
    """Each third point of ten ragged scans: float32 (about 2050, 4)."""
    with np.load(cloud_file("ten_scans_part.npz")) as scans:
        return [scans[f"scan{i}"] for i in range(10)]
