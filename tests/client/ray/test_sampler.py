"""The ops in an actor give what a server gives."""

import numpy as np
import pytest

import farpoint
from farpoint.ray import OpsSampler

CLOUD = np.random.default_rng(0).normal(size=(300, 3))
ALL = np.arange(300)


@pytest.mark.parametrize("dtype", ["f2", "f4", "f8", "i4"])
def test_a_sample(dtype):
    cloud = (CLOUD * 100).astype(dtype)
    sample = OpsSampler("cpu").sample(cloud, 20, start=5)
    assert sample.indices[0] == 5
    assert len({*sample.indices.tolist()}) == 20
    assert np.array_equal(sample.points, cloud[sample.indices])
    assert (np.diff(sample.distances) <= 0).all()
    nearest = np.linalg.norm(cloud[:, None].astype("f8") - sample.points.astype("f8"), axis=2)
    assert sample.covering_radius == pytest.approx(nearest.min(1).max(), rel=1e-5)
    origin = cloud[0] if dtype in ("f8", "i4") else None
    assert np.array_equal(sample.origin, origin)


def test_a_radius_ends_it():
    whole = OpsSampler("cpu").sample(CLOUD, 300)
    ended = OpsSampler("cpu").sample(CLOUD, 300, radius=1.0)
    assert np.array_equal(ended.indices, whole.indices[: len(ended)])
    assert ended.distances[-1] <= 1 < ended.distances[-2]


def test_rows_that_are_not_finite():
    cloud = CLOUD.copy()
    cloud[[0, 7]] = np.nan
    with pytest.raises(farpoint.InvalidArgumentError, match="2 rows with NaN"):
        OpsSampler("cpu").sample(cloud, 20)
    sample = OpsSampler("cpu").sample(cloud, 298, nonfinite="ignore")
    assert {*sample.indices.tolist()} == {*ALL.tolist()} - {0, 7}
    with pytest.raises(farpoint.InvalidArgumentError, match="298 finite points, got 299"):
        OpsSampler("cpu").sample(cloud, 299, nonfinite="ignore")
