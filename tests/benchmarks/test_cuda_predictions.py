"""Predictions that `make gpu-check` sets its measurements against, as the page has them."""

import pytest
from benchmarks.cuda.predictions import MHZ, STATIC, beside, predicted


@pytest.mark.parametrize(("most", "method"), [(most, method) for most, method, _ in STATIC])
def test_every_size_has_a_static_prediction(most, method):
    assert 0.1 < predicted(method, most)["static"] < 10


@pytest.mark.parametrize(("method", "points"), [("block", 1024), ("tree", 4096), ("tree", 16384)])
def test_the_sizes_that_were_simulated_are_found(method, points):
    assert 100 < predicted(method, points)["simulated"] * MHZ < 10_000


def test_a_measured_step_is_set_against_its_predictions():
    step = beside("block", 4096, {"us_per_step": 2 * predicted("block", 4096)["static"]})
    assert step["over_predicted"]["static"] == 2
    assert beside("grid", 4096, {"us_per_step": 1.0})["over_predicted"] == {}
