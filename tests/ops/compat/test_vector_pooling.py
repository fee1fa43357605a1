"""OpenPCDet's vector pooling and voxel query by their definitions, point by point."""

import pytest
import torch
from torch import Tensor

from farpoint_ops.compat import pointnet2_stack as stack

COUNTS, NEW_COUNTS = [60, 40], [7, 5]
REACH = 0.35


def random(device: torch.device, *shape: int) -> Tensor:
    return torch.rand(*shape, generator=torch.Generator().manual_seed(sum(shape))).to(device)


class Batch:
    """Two clouds and the new points of each, one of which is far from everything."""

    def __init__(self, device: torch.device) -> None:
        self.xyz, self.features = random(device, 100, 3), random(device, 100, 6)
        self.new_xyz = random(device, 12, 3)
        self.new_xyz[8] += 50
        self.counts = torch.tensor(COUNTS, dtype=torch.int32, device=device)
        self.new_counts = torch.tensor(NEW_COUNTS, dtype=torch.int32, device=device)

    def around(self, query: int, reach: float, neighbor_type: int) -> list[int]:
        """Rows in the ball (1) or the cube around a new point, in its cloud, ascending."""
        rows = range(60) if query < NEW_COUNTS[0] else range(60, 100)
        apart = (self.xyz - self.new_xyz[query]).abs()
        size = apart.square().sum(-1).sqrt() if neighbor_type == 1 else apart.amax(-1)
        return [row for row in rows if size[row] <= reach]


@pytest.fixture
def batch(device: torch.device) -> Batch:
    return Batch(device)


@pytest.mark.parametrize("pooling_type", [0, 1])
@pytest.mark.parametrize("neighbor_type", [0, 1])
@pytest.mark.parametrize("nsample", [-1, 4])
def test_vector_pooling(batch: Batch, nsample: int, neighbor_type: int, pooling_type: int) -> None:
    grid, features = (3, 2, 2), batch.features.requires_grad_()
    pooled, local, number, counts = stack.vector_pool_with_voxel_query_op(
        *(batch.xyz, batch.counts, features, batch.new_xyz, batch.new_counts, *grid),
        *(REACH, 3, 1, 100, nsample, neighbor_type, pooling_type),
    )
    expected = [[torch.zeros(6, device=pooled.device)] * 12 for _ in range(12)]
    rows_of: list[dict[int, list[int]]] = [{} for _ in range(12)]
    for query in range(12):
        taken = 0
        for row in batch.around(query, REACH, neighbor_type):
            apart = (batch.xyz[row] - batch.new_xyz[query]).tolist()
            x, y, z = (int((a + REACH) / (2 * REACH / n)) for a, n in zip(apart, grid, strict=True))
            cell = rows_of[query].setdefault((x * 2 + y) * 2 + z, [])
            if taken != nsample and not (pooling_type and cell):
                cell.append(row)
                taken += 1
        for cell, rows in rows_of[query].items():
            if rows:
                groups = features[rows].view(-1, 2, 3)
                values = groups[:, 1] if pooling_type else groups.sum(1)
                places = batch.xyz[rows] - batch.new_xyz[query]
                expected[query][cell] = torch.cat([values, places], 1).mean(0)
    joined = torch.stack([torch.stack(cells) for cells in expected])
    torch.testing.assert_close(pooled.view(12, 12, 3), joined[..., :3])
    torch.testing.assert_close(local.view(12, 12, 3), joined[..., 3:])
    lengths = [[len(rows.get(c, [])) for c in range(12)] for rows in rows_of]
    assert counts.tolist() == lengths
    assert number.item() == -(-sum(map(sum, lengths)) // 12)
    weights = random(pooled.device, 12, 12, 3)
    (actual,) = torch.autograd.grad((pooled.view(12, 12, 3) * weights).sum(), features)
    (wanted,) = torch.autograd.grad((joined[..., :3] * weights).sum(), features)
    torch.testing.assert_close(actual, wanted)


def test_vector_pooling_around_no_points_and_of_odd_channels(batch: Batch) -> None:
    none, no_counts = batch.new_xyz[:0], torch.zeros_like(batch.new_counts)
    arguments = none, no_counts, 3, 2, 2, REACH
    pooled = stack.vector_pool_with_voxel_query_op(
        batch.xyz, batch.counts, batch.features, *arguments, 3, 1
    )
    assert [t.shape for t in pooled] == [(0, 36), (0, 36), (1,), (0, 12)]
    found = stack.three_nn_for_vector_pool_by_two_step(
        *(batch.xyz, batch.counts, none, none[:, None], no_counts, 1.0, -1, 0, 10, 1, 1.0)
    )
    assert found[1].shape == (0, 1, 3)
    with pytest.raises(ValueError, match=r"support_features: expected a multiple of 4 .* got 6"):
        stack.vector_pool_with_voxel_query_op(
            batch.xyz, batch.counts, batch.features, *arguments, 4, 1
        )


@pytest.mark.parametrize("neighbor_type", [0, 1])
@pytest.mark.parametrize("nsample", [-1, 2])
def test_three_nearest_of_a_neighborhood(batch: Batch, nsample: int, neighbor_type: int) -> None:
    centers = batch.new_xyz[:, None] + (random(batch.xyz.device, 12, 5, 3) - 0.5) * REACH
    distance, idx, mean = stack.three_nn_for_vector_pool_by_two_step(
        *(batch.xyz, batch.counts, batch.new_xyz, centers, batch.new_counts),
        *(REACH / 2, nsample, neighbor_type, 1000, 5, 2.0),
    )
    total = 0
    for query in range(12):
        rows = batch.around(query, REACH, neighbor_type)[: nsample if nsample > 0 else None]
        total += len(rows)
        for center in range(5):
            apart = (batch.xyz[rows] - centers[query, center]).norm(dim=-1)
            order = apart.argsort(stable=True)[:3].tolist()
            order += order[:1] * (3 - len(order))
            assert idx[query, center].tolist() == ([rows[i] for i in order] or [-1] * 3)
            found = apart[order] if rows else torch.full((3,), torch.inf).to(apart)
            torch.testing.assert_close(distance[query, center], found)
    assert mean.item() == -(-total // 12)
    assert not distance.requires_grad


def test_local_interpolation_looks_at_a_thousand_neighbors(device: torch.device) -> None:
    """The lowest rows, as in the original: the nearest is row 1000, and is not among them."""
    xyz = torch.full((1001, 3), 0.5, device=device)
    xyz[1000] = 0
    new, one = torch.zeros(1, 3, device=device), torch.tensor([1], device=device)
    count = torch.tensor([1001], device=device)
    arguments = xyz, count, new, new[None], one, 1.0, -1, 0, 10, 1, 1.0
    assert stack.three_nn_for_vector_pool_by_two_step(*arguments)[1].tolist() == [[[0, 1, 2]]]


def test_voxel_query(device: torch.device) -> None:
    xyz = random(device, 60, 3)
    voxels = (xyz * 5).long()
    table = torch.full((2, 5, 5, 5), -1, device=device)
    for row, (x, y, z) in enumerate(voxels.tolist()):
        table[row // 30, z, y, x] = row
    queries = torch.tensor([3, 17, 29, 30, 44], device=device)
    new_xyz = xyz[queries] + 0.01
    new_xyz[2] += 50
    coords = torch.cat([queries[:, None] // 30, voxels[queries].flip(1)], 1)
    idx, empty = stack.voxel_query([1, 2, 1], 0.3, 6, xyz, new_xyz, coords, table)
    for query, (cloud, z, y, x) in enumerate(coords.tolist()):
        around = [
            int(table[cloud, k, j, i])
            for k in range(max(z - 1, 0), min(z + 2, 5))
            for j in range(max(y - 2, 0), min(y + 3, 5))
            for i in range(max(x - 1, 0), min(x + 2, 5))
        ]
        rows = [r for r in around if r >= 0 and (xyz[r] - new_xyz[query]).norm() <= 0.3][:6]
        assert idx[query].tolist() == rows + (rows[:1] or [0]) * (6 - len(rows))
        assert bool(empty[query]) == (not rows)
    assert empty.tolist() == [False, False, True, False, False]
    counts = torch.tensor([30, 30], device=device), torch.tensor([3, 2], device=device)
    module, features = stack.VoxelQueryAndGrouping([1, 2, 1], 0.3, 6), random(device, 60, 4)
    grouped, near, none = module(
        coords, xyz, counts[0], new_xyz, counts[1], features.requires_grad_(), table
    )
    assert torch.equal(grouped, features[idx.long()].mT)
    assert torch.equal(near, xyz[idx.long()].mT)
    assert torch.equal(none, empty)
    assert grouped.requires_grad
