"""Datasets sampled by actors of Ray Data."""

import numpy as np
import pytest

from farpoint_ops.arrays import sample_array

pytestmark = [pytest.mark.timeout(900), pytest.mark.filterwarnings("ignore")]


def test_a_dataset_gets_its_samples_beside_its_clouds(nodes):  # noqa: ARG001  of Ray
    import ray

    import farpoint.ray

    clouds = [np.random.default_rng(i).normal(size=(500 + i, 3)) + 1e6 for i in range(20)]
    dataset = ray.data.from_items([{"name": i, "points": c} for i, c in enumerate(clouds)])
    rows = sorted(farpoint.ray.sample_dataset(dataset, 16).take_all(), key=lambda r: r["name"])
    assert len(rows) == len(clouds)
    for row, cloud in zip(rows, clouds, strict=True):
        assert np.array_equal(row["indices"], sample_array(cloud, 16).rows)
        assert row["covering_radius"] == row["distances"][-1] > 0
        assert np.array_equal(row["points"], cloud)
    ended = farpoint.ray.sample_dataset(dataset, 500, radius=1.0).take_all()
    assert all(row["covering_radius"] <= 1 and len(row["indices"]) < 500 for row in ended)
    with pytest.raises(farpoint.InvalidArgumentError, match="indices"):
        farpoint.ray.sample_dataset(ray.data.from_items(rows), 16)
