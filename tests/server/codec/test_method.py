"""The method of a request: which fields go with which, what is named where one is wrong."""

import numpy as np
import pytest
from tests.support.messages import tensor

from farpoint.v1 import sampling_pb2 as pb
from farpoint.v1.voxel_grid_pb2 import VOXEL_SELECTION_MEAN, VoxelGrid
from farpoint_server.codec.coordinates import decode_sample_request
from farpoint_server.codec.sample_request import SampleMessage, parse_sample_request
from farpoint_server.codec.tensors import RequestLimits
from farpoint_server.engine.types import Clouds, MethodClouds, RandomRows
from farpoint_server.engine.types import VoxelGrid as Grid
from farpoint_server.errors import InvalidRequestError

LIMITS = RequestLimits(message_bytes=10_000, points=100, clouds=5)
FARTHEST, GRID, RANDOM, DISK = (
    pb.SAMPLING_METHOD_FARTHEST_POINT,
    pb.SAMPLING_METHOD_VOXEL_GRID,
    pb.SAMPLING_METHOD_RANDOM,
    pb.SAMPLING_METHOD_POISSON_DISK,
)
UNIT = VoxelGrid(voxel_size=1)


def parsed(points: np.ndarray | None = None, **fields):
    points = np.arange(12.0).reshape(4, 3) if points is None else points
    request = pb.SampleRequest(points=tensor(points), **fields)
    return parse_sample_request(SampleMessage(request, None, request.ByteSize()), LIMITS)


def test_parameters_are_read():
    grid = VoxelGrid(voxel_size=0.5, selection=VOXEL_SELECTION_MEAN, origin=[1, 2, 3])
    assert parsed(method=GRID, voxel_grid=grid).method == Grid(0.5, "mean", (1, 2, 3))
    assert parsed(method=GRID, voxel_grid=UNIT).method == Grid(1, "first", (0, 0, 0))
    batch = {"method": RANDOM, "lengths": [1, 3], "sample_counts": [1]}
    assert parsed(**batch).method == RandomRows((0, 0))
    assert parsed(**batch, seeds=[7]).method == RandomRows((7, 7))
    assert parsed(**batch, seeds=[7, 2**64 - 1]).method == RandomRows((7, 2**64 - 1))
    disks = parsed(method=DISK, covering_radius=2)
    assert (disks.method, disks.covering_radius) == (None, 2)


WRONG = {
    "a grid for farthest points": ({"sample_counts": [1], "voxel_grid": UNIT}, "voxel_grid"),
    "a seed for farthest points": ({"sample_counts": [1], "seeds": [0]}, "seeds"),
    "a seed for disks": ({"method": DISK, "covering_radius": 1, "seeds": [0]}, "seeds"),
    "disks without a radius": ({"method": DISK, "sample_counts": [1]}, "covering_radius"),
    "counts for a grid": (
        {"method": GRID, "voxel_grid": UNIT, "sample_counts": [1]},
        "sample_counts",
    ),
    "starts for a grid": (
        {"method": GRID, "voxel_grid": UNIT, "start_indices": [0]},
        "start_indices",
    ),
    "a radius for a grid": (
        {"method": GRID, "voxel_grid": UNIT, "covering_radius": 0},
        "covering_radius",
    ),
    "distances of a grid": (
        {"method": GRID, "voxel_grid": UNIT, "return_distances": True},
        "return_distances",
    ),
    "no grid": ({"method": GRID}, "voxel_grid.voxel_size"),
    "a size below 0": (
        {"method": GRID, "voxel_grid": VoxelGrid(voxel_size=-1)},
        "voxel_grid.voxel_size",
    ),
    "no number": (
        {"method": GRID, "voxel_grid": VoxelGrid(voxel_size=float("nan"))},
        "voxel_grid.voxel_size",
    ),
    "an unknown selection": (
        {"method": GRID, "voxel_grid": VoxelGrid(voxel_size=1, selection=9)},
        "voxel_grid.selection",
    ),
    "half an origin": (
        {"method": GRID, "voxel_grid": VoxelGrid(voxel_size=1, origin=[1, 2])},
        "voxel_grid.origin",
    ),
    "an endless origin": (
        {"method": GRID, "voxel_grid": VoxelGrid(voxel_size=1, origin=[1, 2, float("inf")])},
        "voxel_grid.origin",
    ),
    "no counts for random rows": ({"method": RANDOM}, "sample_counts"),
    "too many random rows": ({"method": RANDOM, "sample_counts": [5]}, "sample_counts[0]"),
    "a grid for random rows": (
        {"method": RANDOM, "sample_counts": [1], "voxel_grid": UNIT},
        "voxel_grid",
    ),
    "starts for random rows": (
        {"method": RANDOM, "sample_counts": [1], "start_indices": [0]},
        "start_indices",
    ),
    "seeds for no clouds": (
        {"method": RANDOM, "sample_counts": [1], "lengths": [1, 1, 2], "seeds": [1, 2]},
        "seeds",
    ),
}


@pytest.mark.parametrize("case", WRONG)
def test_the_wrong_field_is_named(case):
    fields, field = WRONG[case]
    with pytest.raises(InvalidRequestError, match="expected") as caught:
        parsed(**fields)
    assert caught.value.field == field


def test_float64_is_not_shifted_for_a_method():
    points = np.array([[1e9, 0, 0], [1e9 + 0.25, 1, 2]])
    decoded = decode_sample_request(parsed(points, method=GRID, voxel_grid=UNIT))
    assert isinstance(decoded.work.clouds, MethodClouds)
    assert decoded.origins is None
    np.testing.assert_array_equal(decoded.work.clouds.points, points)
    plain = decode_sample_request(parsed(points, method=FARTHEST, sample_counts=[1]))
    assert isinstance(plain.work.clouds, Clouds)
    assert plain.origins is not None


@pytest.mark.parametrize(("exponent", "right"), [(53, True), (54, False), (1000, False)])
def test_a_point_has_a_voxel_of_its_own_number(exponent, right):
    points = np.array([[0, 0, -1.0], [np.nan, 0, 0]])
    request = parsed(
        points,
        method=GRID,
        voxel_grid=VoxelGrid(voxel_size=2.0**-exponent),
        nonfinite_policy=pb.NONFINITE_POLICY_IGNORE,
    )
    if right:
        decode_sample_request(request)
    else:
        with pytest.raises(InvalidRequestError, match=r"within 2\^53 voxels"):
            decode_sample_request(request)
