"""Real point clouds for tests: those in tests/data."""

from pathlib import Path

import numpy as np

DATA = Path(__file__).resolve().parents[1] / "data"


def cloud_file(name: str) -> Path:
    """Path of a cloud in tests/data."""
    return DATA / name


def street_scan() -> np.ndarray:
    """Each fourth point of a street seen by 128 beams: float32 (26912, 4), x y z intensity."""
    return np.fromfile(cloud_file("street_kitti_part.bin"), "<f4").reshape(-1, 4)


def ten_scans() -> list[np.ndarray]:
    """Each third point of ten ragged scans: float32 (about 2050, 4)."""
    with np.load(cloud_file("ten_scans_part.npz")) as scans:
        return [scans[f"scan{i}"] for i in range(10)]
