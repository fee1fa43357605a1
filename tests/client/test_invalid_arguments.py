"""Wrong arguments are found before anything is sent, and named as the server would name them."""

import numpy as np
import pytest

from farpoint import InvalidArgumentError

CLOUD = np.zeros((10, 3), np.float32)
SHAPE, COUNT, START = "points.shape", "sample_counts[0]", "start_indices[0]"

WRONG = {
    "one column short": ({"points": CLOUD[:, :2]}, SHAPE, r"\(N, 3\), got \(10, 2\)"),
    "one axis": ({"points": np.zeros(3)}, SHAPE, r"\(N, 3\), got \(3,\)"),
    "four axes": ({"points": np.zeros((1, 1, 10, 3))}, SHAPE, r"\(N, 3\)"),
    "no points": ({"points": CLOUD[:0]}, SHAPE, "at least one point"),
    "no points in a batch": ({"points": np.zeros((2, 0, 3))}, SHAPE, "at least one point"),
    "one empty cloud": (
        {"points": [CLOUD, CLOUD[:0]]},
        SHAPE,
        r"points\[1\] .* at least one",
    ),
    "one flat cloud": (
        {"points": [CLOUD, CLOUD[0]]},
        SHAPE,
        r"points\[1\] must have shape",
    ),
    "text": ({"points": "cloud.ply"}, "points", "farpoint.io.read_cloud"),
    "nothing": ({"points": None}, SHAPE, "points must"),
    "uneven rows": ({"points": [[0.0, 1, 2], [3.0, 4]]}, "points", "points must be an array"),
    "zero samples": ({"m": 0}, COUNT, "from 1 to the 10 points of cloud 0, got 0"),
    "too many samples": ({"m": 11}, COUNT, "10 points of cloud 0, got 11"),
    "too many of the second": (
        {"points": [CLOUD] * 2, "m": [10, 11]},
        "sample_counts[1]",
        "cloud 1",
    ),
    "a fraction of a sample": ({"m": 1.5}, "sample_counts", "whole number.*got 1.5"),
    "no samples": ({"m": None}, "sample_counts", "give m"),
    "too few counts": ({"points": [CLOUD] * 3, "m": [1, 2]}, "sample_counts", r"\(3\), got 2"),
    "nested counts": ({"points": [CLOUD], "m": [[1]]}, "sample_counts", "m must be"),
    "a start below 0": ({"start": -1}, START, "0 to 9 of cloud 0, got -1"),
    "a start beyond the end": ({"start": 10}, START, "0 to 9 of cloud 0, got 10"),
    "too many starts": ({"start": [0, 0]}, "start_indices", r"\(1\), got 2"),
    "an unknown policy": ({"nonfinite": "skip"}, "nonfinite_policy", "got 'skip'"),
    "short attributes": ({"attributes": np.zeros(9)}, "attributes", r"\(10\), got shape \(9,\)"),
    "a short named one": (
        {"attributes": {"a": np.zeros(9)}},
        "attributes",
        r'attributes\["a"\] must have one row',
    ),
    "a scalar attribute": ({"attributes": 3}, "attributes", "one row per point"),
    "attributes of one cloud": (
        {"points": [CLOUD] * 2, "attributes": [np.zeros(10)]},
        "attributes",
        r"one entry per cloud \(2\), got 1",
    ),
    "no time": ({"timeout": 0}, "timeout", "above 0"),
}


@pytest.mark.parametrize("case", WRONG)
def test_wrong_argument(client, server, case):
    arguments, field, message = WRONG[case]
    with pytest.raises(InvalidArgumentError, match=message) as raised:
        client.sample(**({"points": CLOUD, "m": 2} | arguments))
    assert raised.value.field == field
    assert raised.value.request_id is None
    assert server.requests == []


def test_a_request_beyond_two_gigabytes_is_refused(client, server):
    huge = np.broadcast_to(np.float64(0), (90_000_000, 3))
    with pytest.raises(InvalidArgumentError, match="one message of") as raised:
        client.sample(huge, 1)
    assert raised.value.field == "points.data"
    assert server.requests == []
