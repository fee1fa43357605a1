"""Voxel grid, random rows and Poisson disk: each by its own contract, the same on every device."""

from collections import defaultdict
from fractions import Fraction
from itertools import accumulate
from math import floor

import pytest
import torch
from torch import Tensor

from farpoint_ops import (
    farthest_point_sample,
    poisson_disk_sample,
    random_sample,
    random_sample_ragged,
    voxel_grid_mean,
    voxel_grid_sample,
)

SIDE = 0.7


def voxels(cloud: Tensor, first: int, size: float) -> dict[tuple[int, ...], list[int]]:
    """The rows in each voxel, the voxels by their first row; rows count from `first`."""
    cells: dict[tuple[int, ...], list[int]] = defaultdict(list)
    for row, point in enumerate(cloud.double().tolist()):
        if all(abs(v) < float("inf") for v in point):
            cells[tuple(floor(v / size) for v in point)].append(first + row)
    return cells


def finite_part(cloud: Tensor) -> Tensor:
    """Coordinates that a grid can number."""
    return cloud.where(cloud.abs() < 1e15, torch.nan)


def test_first_rows_equal_a_dictionary(cloud: Tensor) -> None:
    cloud = finite_part(cloud)
    cut = len(cloud) // 3
    rows, offsets = voxel_grid_sample(cloud, SIDE, offsets=[0, cut, cut, len(cloud)])
    expected = [voxels(cloud[:cut], 0, SIDE), {}, voxels(cloud[cut:], cut, SIDE)]
    assert rows.dtype == torch.int32
    assert rows.tolist() == [min(r) for cells in expected for r in cells.values()]
    assert offsets.diff().tolist() == [len(cells) for cells in expected]


def test_the_answer_for_the_first_rows_is_a_prefix(cloud: Tensor) -> None:
    cloud = finite_part(cloud)
    whole, _ = voxel_grid_sample(cloud, SIDE)
    for count in (0, 1, len(cloud) // 2):
        rows, offsets = voxel_grid_sample(cloud[:count], SIDE)
        assert torch.equal(rows, whole[: len(rows)])
        assert offsets.tolist() == [0, len(rows)]


def test_means_and_the_rows_nearest_to_them_equal_fractions(cloud: Tensor) -> None:
    """In exact arithmetic on the places that the contract rounds to."""
    cloud = finite_part(cloud[:150])
    means, offsets = voxel_grid_mean(cloud, SIDE)
    rows, _ = voxel_grid_sample(cloud, SIDE, select="nearest_mean")
    expected, nearest = [], []
    for voxel, members in voxels(cloud, 0, SIDE).items():
        scaled = [[v / SIDE for v in cloud[r].double().tolist()] for r in members]
        places = [[int((s - floor(s)) * 2**30) for s in point] for point in scaled]
        mean = [Fraction(sum(axis), len(members)) for axis in zip(*places, strict=True)]
        expected.append([(v + float(m) / 2**30) * SIDE for v, m in zip(voxel, mean, strict=True)])
        apart = [sum((p - m) ** 2 for p, m in zip(at, mean, strict=True)) for at in places]
        nearest.append(members[apart.index(min(apart))])
    assert torch.equal(means.cpu(), torch.tensor(expected).reshape(-1, 3).to(means.dtype))
    assert offsets.tolist() == [0, len(expected)]
    assert rows.tolist() == sorted(nearest)


def test_the_order_of_the_points_does_not_change_a_mean(device: torch.device) -> None:
    generator = torch.Generator().manual_seed(0)
    cloud = torch.rand(20_000, 3, generator=generator)
    means, _ = voxel_grid_mean(cloud.to(device), 0.25)
    turned, _ = voxel_grid_mean(cloud.flip(0).to(device), 0.25)
    assert sorted(means.tolist()) == sorted(turned.tolist())
    assert len(means) == 64


def test_voxels_that_lie_far_apart_are_distinct(device: torch.device) -> None:
    """More of them than an int64 numbers, if those between them counted."""
    corners = torch.cartesian_prod(*[torch.arange(3.0) * 2**22] * 3).to(device)
    cloud = torch.cat([corners, corners.flip(0) + 0.5])
    assert voxel_grid_sample(cloud, 1.0)[0].tolist() == list(range(27))
    rows, _ = voxel_grid_sample(cloud, 1.0, offsets=[0, 27, 54])
    assert rows.tolist() == list(range(54))


def test_an_origin_moves_the_grid(device: torch.device) -> None:
    line = torch.tensor([[0.1, 0, 0], [0.9, 0, 0], [1.1, 0, 0]], device=device)
    assert voxel_grid_sample(line, 1.0)[0].tolist() == [0, 2]
    assert voxel_grid_sample(line, 1.0, origin=(0.5, 0, 0))[0].tolist() == [0, 1]


def split_mix(seed: int, place: int) -> int:
    """As in the paper, in Python's integers."""
    mask = 2**64 - 1
    z = (seed + (place + 1) * 0x9E3779B97F4A7C15) & mask
    z = ((z ^ z >> 30) * 0xBF58476D1CE4E5B9) & mask
    z = ((z ^ z >> 27) * 0x94D049BB133111EB) & mask
    return z ^ z >> 31


@pytest.mark.parametrize("seed", [0, 1, -5, 2**63, 2**64 - 1])
def test_random_rows_are_those_of_split_mix(cloud: Tensor, seed: int) -> None:
    n = len(cloud)
    finite = cloud.isfinite().all(-1).tolist()
    order = sorted(range(n), key=lambda i: (not finite[i], split_mix(seed, i), i))
    assert random_sample(cloud[None], n, seed=seed).tolist() == [order]
    m = (n + 1) // 2
    assert random_sample(cloud[None], m, seed=seed).tolist() == [order[:m]]


def test_a_known_number_of_split_mix() -> None:
    """Of the generator that Java and many others seed theirs with."""
    assert split_mix(1234567, 0) == 6457827717110365317


def test_random_rows_do_not_depend_on_the_batch(device: torch.device) -> None:
    clouds = torch.zeros(3, 40, 3, device=device)
    each = random_sample(clouds, 9, seed=[4, 5, 4], lengths=[40, 40, 12])
    assert torch.equal(each[:1], random_sample(clouds[:1], 9, seed=4))
    assert torch.equal(each[2:], random_sample(clouds[:1, :12], 9, seed=4))
    assert not torch.equal(each[0], each[1])
    assert sorted(random_sample(clouds, 40)[0].tolist()) == list(range(40))


def test_random_rows_of_a_ragged_batch_are_those_of_each_cloud(cloud: Tensor) -> None:
    clouds = [cloud[:1], cloud, cloud.flip(0)]
    counts, seeds = [1, len(cloud), (len(cloud) + 1) // 2], [7, -1, 2**64 - 1]
    cuts = [0, *accumulate(map(len, clouds))]
    rows = random_sample_ragged(torch.cat(clouds), cuts, counts, seed=seeds)
    each = zip(clouds, counts, seeds, cuts, strict=False)
    expected = [random_sample(c[None], m, seed=s)[0] + first for c, m, s, first in each]
    assert rows.dtype == torch.int32
    assert torch.equal(rows, torch.cat(expected))


def test_poisson_disks_do_not_overlap_and_leave_no_room(device: torch.device) -> None:
    cloud = torch.rand(2, 900, 3, generator=torch.Generator().manual_seed(2)).to(device)
    rows, offsets = poisson_disk_sample(cloud, 0.15)
    whole = farthest_point_sample(cloud, 900)
    for b, points in enumerate(cloud):
        chosen = rows[offsets[b] : offsets[b + 1]].long()
        assert torch.equal(chosen.int(), whole[b, : len(chosen)])
        between = torch.cdist(points[chosen].double(), points.double())
        assert between.min(0).values.max() <= 0.15 + 1e-6
        apart = between[:, chosen] + torch.eye(len(chosen), device=device)
        assert apart.min() > 0.15 - 1e-6
    fewer, ends = poisson_disk_sample(cloud[:1], 0.3)
    assert torch.equal(fewer, rows[: ends[1]])
    flat, _ = poisson_disk_sample(cloud.flatten(0, 1), 0.15, offsets=[0, 900, 1800])
    assert torch.equal(flat, torch.cat([rows[: offsets[1]], rows[offsets[1] :] + 900]))
