"""The ops in an actor give what a server gives."""

import numpy as np
import pytest

import farpoint
from farpoint.ray import RowSampler

CLOUD = np.random.default_rng(0).normal(size=(300, 3))


def sample(cloud, m, **options):
    return RowSampler("points", m, options, "cpu")({"points": cloud, "name": "a"})


@pytest.mark.parametrize("dtype", ["f2", "f4", "f8", "i4"])
def test_a_row_gets_the_sample_of_its_cloud(dtype):
    cloud = (CLOUD * 100).astype(dtype)
    row = sample(cloud, 20, start=5)
    assert row["name"] == "a"
    assert row["indices"][0] == 5
    assert len({*row["indices"].tolist()}) == 20
    points = cloud.astype("f8")
    nearest = np.linalg.norm(points[:, None] - points[row["indices"]], axis=2)
    assert row["covering_radius"] == pytest.approx(nearest.min(1).max(), rel=1e-5)
    assert row["distances"][-1] == row["covering_radius"]


def test_a_radius_ends_it():
    whole, ended = sample(CLOUD, 300), sample(CLOUD, None, radius=1.0)
    assert np.array_equal(ended["indices"], whole["indices"][: len(ended["indices"])])
    assert ended["distances"][-1] <= 1 < ended["distances"][-2]
    with pytest.raises(farpoint.InvalidArgumentError, match="give m, a radius"):
        sample(CLOUD, None)


def test_rows_that_are_not_finite():
    cloud = CLOUD.copy()
    cloud[[0, 7]] = np.nan
    with pytest.raises(farpoint.InvalidArgumentError, match="2 rows with NaN"):
        sample(cloud, 20)
    rows = sample(cloud, 298, nonfinite="ignore")["indices"]
    assert {*rows.tolist()} == {*range(300)} - {0, 7}
