"""Methods of `sample`: requests, and errors before anything is sent."""

from collections.abc import Callable

import numpy as np
import pytest

import farpoint
from farpoint import InvalidArgumentError, PoissonDisk, RandomSampling, VoxelGrid
from farpoint.v1 import sampling_pb2 as pb
from farpoint.v1 import tensor_pb2

CLOUD = np.zeros((4, 3), np.float32)


def answer(*rows: int, **fields) -> pb.SampleResponse:
    indices = tensor_pb2.Tensor(
        data_type=tensor_pb2.DATA_TYPE_INT32,
        shape=[len(rows)],
        data=np.array(rows, "<i4").tobytes(),
    )
    return pb.SampleResponse(indices=indices, lengths=[len(rows)], **fields)


def test_means_that_do_not_fit_are_an_error(client, server):
    means = tensor_pb2.Tensor(data_type=tensor_pb2.DATA_TYPE_FLOAT32, shape=[1, 3], data=bytes(12))
    server.answer = answer(0, 2, points=means)
    with pytest.raises(
        farpoint.InternalError, match=r"coordinates of shape \(1, 3\), expected \(2, 3\)"
    ):
        client.sample(CLOUD, method=VoxelGrid(0.5, "mean"))


@pytest.mark.parametrize("rows", [(), (0, 1, 2, 3, 3)])
def test_more_voxels_than_points_are_an_error(client, server, rows):
    server.answer = answer(*rows)
    with pytest.raises(farpoint.InternalError, match="indices"):
        client.sample(CLOUD, method=VoxelGrid(0.5))


WRONG: dict[str, tuple[Callable[[farpoint.Client], object], str, str]] = {
    "no size": (lambda _: VoxelGrid(0), "voxel_grid.voxel_size", "above 0, got 0"),
    "an endless size": (lambda _: VoxelGrid(np.inf), "voxel_grid.voxel_size", "got inf"),
    "a selection": (lambda _: VoxelGrid(1, "last"), "voxel_grid.selection", "got 'last'"),
    "an origin": (lambda _: VoxelGrid(1, origin=(0, 0)), "voxel_grid.origin", r"got \(0, 0\)"),
    "a seed": (lambda _: RandomSampling(-1), "seeds", "to 2.64 - 1, got -1"),
    "a large seed": (lambda _: RandomSampling(2**64), "seeds", "to 2.64 - 1, got 18446744"),
    "half a seed": (lambda _: RandomSampling([1, 0.5]), "seeds", "whole number.*got 0.5"),
    "a huge size": (lambda _: VoxelGrid(10**400), "voxel_grid.voxel_size", "got 1000"),
    "a huge origin": (lambda _: VoxelGrid(1, origin=(10**400, 0, 0)), "voxel_grid.origin", "1000"),
    "a radius": (lambda _: PoissonDisk(-1.0), "covering_radius", "got -1.0"),
    "a huge radius": (lambda c: c.sample(CLOUD, radius=10**400), "covering_radius", "got 1000"),
    "a name": (lambda c: c.sample(CLOUD, 2, method="random"), "method", "got 'random'"),
    "m of a grid": (lambda c: c.sample(CLOUD, 2, method=VoxelGrid(1)), "sample_counts", "got 2"),
    "no m": (lambda c: c.sample(CLOUD, method=RandomSampling()), "sample_counts", "give m"),
    "a start": (
        lambda c: c.sample(CLOUD, 2, start=1, method=RandomSampling()),
        "start_indices",
        "start must be 0 with RandomSampling, got 1",
    ),
    "two radii": (
        lambda c: c.sample(CLOUD, radius=1, method=PoissonDisk(1)),
        "covering_radius",
        "radius must be None with PoissonDisk, got 1",
    ),
    "seeds of other clouds": (
        lambda c: c.sample([CLOUD] * 3, 2, method=RandomSampling([1, 2])),
        "seeds",
        r"one per cloud \(3\), got \[1, 2\]",
    ),
    "in a stream": (
        lambda c: c.sample_stream([CLOUD], 2, method=VoxelGrid(1)),
        "sample_counts",
        "got 2",
    ),
}


@pytest.mark.parametrize("case", WRONG)
def test_a_wrong_argument_is_named(client, server, case):
    call, field, message = WRONG[case]
    with pytest.raises(InvalidArgumentError, match=message) as raised:
        call(client)
    assert raised.value.field == field
    assert not server.requests
