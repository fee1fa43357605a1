"""Farthest point sampling of numpy arrays: dtypes, map coordinates, rows that are not finite."""

import numpy as np
import pytest
import torch

from farpoint_ops import farthest_point_sample
from farpoint_ops.arrays import sample_array

CLOUD = np.random.default_rng(5).normal(size=(300, 3))


def expected(cloud: np.ndarray, m: int, start: int = 0) -> np.ndarray:
    """Of the op itself."""
    points = torch.from_numpy(cloud.astype(np.float32))
    return farthest_point_sample(points[None], m, start=start)[0].numpy()


@pytest.mark.parametrize("dtype", ["f2", "f4", ">f4", "i1", "i2", "u2"])
def test_narrow_types_are_widened(dtype: str) -> None:
    cloud = (CLOUD * 20 + 50).astype(dtype)
    rows = sample_array(cloud, 40, start=3).rows
    assert rows.dtype == np.int64
    assert np.array_equal(rows, expected(cloud, 40, 3))


@pytest.mark.parametrize("dtype", ["f8", ">f8"])
def test_map_coordinates_are_shifted_before_they_are_narrowed(dtype: str) -> None:
    cloud = CLOUD + np.array([500_000.0, 5_000_000.0, 0.0])
    rows = sample_array(cloud.astype(dtype), 40).rows
    assert np.array_equal(rows, expected(cloud - cloud[0], 40))
    assert not np.array_equal(rows, expected(cloud, 40))


def test_wide_integers_are_shifted_too() -> None:
    cloud = (CLOUD * 100).astype(np.int64) + 2**40
    assert np.array_equal(sample_array(cloud, 40).rows, expected(cloud - cloud[0], 40))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_rows_that_are_not_finite(dtype: type) -> None:
    cloud = CLOUD.astype(dtype)
    cloud[:2] = np.nan
    with pytest.raises(ValueError, match="got 2 rows with NaN, infinity or values"):
        sample_array(cloud, 5)
    rows = sample_array(cloud, 298, nonfinite="ignore").rows
    assert sorted(rows) == list(range(2, 300))
    assert rows[0] == 2
    with pytest.raises(
        ValueError, match="at most the 298 points that are finite in float32, got 299"
    ):
        sample_array(cloud, 299, nonfinite="ignore")


@pytest.mark.parametrize("value", [1e39, 1e200, -1e308])
def test_what_is_beyond_float32_is_said_to_be(value: float) -> None:
    cloud = CLOUD.astype(np.float64)
    cloud[7, 1] = value
    with pytest.raises(ValueError, match="got 1 rows with NaN, infinity or values beyond float32"):
        sample_array(cloud, 5)
    with pytest.raises(ValueError, match="at most the 299 points that are finite in float32"):
        sample_array(cloud, 300, nonfinite="ignore")


@pytest.mark.parametrize(
    ("points", "m", "error", "message"),
    [
        (CLOUD[:, :2], 1, ValueError, r"shape \(N, 3\), got \[300, 2\]"),
        (CLOUD.astype(complex), 1, ValueError, "got complex128"),
        (CLOUD, 301, ValueError, "at most the 300 points that are finite in float32, got 301"),
        (CLOUD, 0, ValueError, "m"),
        (CLOUD[:0], 1, ValueError, "at most the 0"),
    ],
    ids=["shape", "dtype", "too many", "none", "empty"],
)
def test_arguments_that_do_not_fit(points, m, error, message) -> None:
    with pytest.raises(error, match=message):
        sample_array(points, m)


def test_a_start_that_is_no_row() -> None:
    with pytest.raises(IndexError, match="start"):
        sample_array(CLOUD, 3, start=300)


def test_the_input_is_left_alone() -> None:
    cloud = CLOUD.astype(np.float32)
    cloud.flags.writeable = False
    sample_array(cloud[::-1], 5)
