"""The real clouds that tests read, from a `shared/data` folder beside the checkout."""

import os
from pathlib import Path

import numpy as np
import pytest

DATA = Path(__file__).resolve().parents[3] / "shared" / "data"


def shared_cloud(name: str) -> Path:
    """Path of a real cloud; the test is skipped where it is absent, and fails in CI."""
    path = DATA / name
    if path.exists():
        return path
    message = f"{name} is not in {DATA}"
    if os.environ.get("CI"):
        pytest.fail(message)
    pytest.skip(message)


def street_scan() -> np.ndarray:
    """A street seen by a 128-beam LiDAR: float32 (107647, 4), x y z intensity."""
    return np.fromfile(shared_cloud("driving_os1_128_scan0_kitti.bin"), "<f4").reshape(-1, 4)


def ten_scans() -> list[np.ndarray]:
    """Ten ragged float32 (about 6100, 4) scans."""
    with np.load(shared_cloud("os0_8_ten_scans.npz")) as scans:
        return [scans[f"scan{i}"] for i in range(10)]
