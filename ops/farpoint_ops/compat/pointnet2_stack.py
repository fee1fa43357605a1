"""Drop-in for ``pointnet2_utils`` and ``voxel_query_utils`` of OpenPCDet's ``pointnet2_stack``.

Change ``from …pointnet2_stack import pointnet2_utils as pointnet2_stack_utils`` to
``from farpoint_ops.compat import pointnet2_stack as pointnet2_stack_utils``. A batch is flat, with
the number of points of each cloud in `batch_cnt` (integers). Features are (N, C).
"""

from itertools import accumulate

import torch
from torch import Tensor, nn

from farpoint_ops import neighbors
from farpoint_ops._arguments import to_list
from farpoint_ops.compat._batched import Applied
from farpoint_ops.compat._clouds import first_of, in_parts, pairs_of_clouds, within
from farpoint_ops.compat.pointnet2 import FarthestPointSampling, furthest_point_sample
from farpoint_ops.fps import farthest_point_sample_ragged

__all__ = [
    "BallQuery",
    "FarthestPointSampling",
    "GroupingOperation",
    "QueryAndGroup",
    "StackFarthestPointSampling",
    "ThreeInterpolate",
    "ThreeNN",
    "ThreeNNForVectorPoolByTwoStep",
    "VectorPoolWithVoxelQuery",
    "VoxelQuery",
    "VoxelQueryAndGrouping",
    "ball_query",
    "farthest_point_sample",
    "furthest_point_sample",
    "grouping_operation",
    "stack_farthest_point_sample",
    "three_interpolate",
    "three_nn",
    "three_nn_for_vector_pool_by_two_step",
    "vector_pool_with_voxel_query_op",
    "voxel_query",
]

# The neighbors that OpenPCDet's local interpolation looks at, at most.
_MOST_NEIGHBORS = 1000

farthest_point_sample = furthest_point_sample


def stack_farthest_point_sample(
    xyz: Tensor, xyz_batch_cnt: Tensor, npoint: int | list[int] | Tensor
) -> Tensor:
    """(N, 3) -> rows of `xyz`, int32, npoint of each cloud, one cloud behind the other."""
    bounds = _bounds("xyz_batch_cnt", xyz_batch_cnt, xyz)
    return farthest_point_sample_ragged(xyz, bounds, npoint)


def ball_query(
    radius: float,
    nsample: int,
    xyz: Tensor,
    xyz_batch_cnt: Tensor,
    new_xyz: Tensor,
    new_xyz_batch_cnt: Tensor,
) -> tuple[Tensor, Tensor]:
    """(N, 3), (M, 3) -> rows of the center's cloud, int32 (M, nsample), and which balls are empty.

    The first row found fills the places left, row 0 where there is none.
    """
    idx = torch.zeros(len(new_xyz), nsample, dtype=torch.int64, device=xyz.device)
    empty = torch.ones(len(new_xyz), dtype=torch.bool, device=xyz.device)
    sizes = _counts("xyz_batch_cnt", xyz_batch_cnt, xyz)
    for cloud, queries in pairs_of_clouds(
        sizes, _counts("new_xyz_batch_cnt", new_xyz_batch_cnt, new_xyz)
    ):
        rows, taken = within(xyz[cloud], new_xyz[queries], radius, nsample)
        idx[queries], empty[queries] = rows, ~taken[:, 0]
    return idx.int(), empty


def grouping_operation(
    features: Tensor, features_batch_cnt: Tensor, idx: Tensor, idx_batch_cnt: Tensor
) -> Tensor:
    """(N, C), (M, nsample) -> (M, C, nsample), with a gradient for the features."""
    firsts = torch.tensor(
        _bounds("features_batch_cnt", features_batch_cnt, features)[:-1], device=idx.device
    )
    counts = torch.tensor(_counts("idx_batch_cnt", idx_batch_cnt, idx), device=idx.device)
    rows = idx.long() + firsts.repeat_interleave(counts)[:, None]
    return features[rows].transpose(1, 2)


class QueryAndGroup(nn.Module):
    """Groups of up to `nsample` points within `radius` of each center, relative to it."""

    def __init__(self, radius: float, nsample: int, use_xyz: bool = True) -> None:
        super().__init__()
        self.radius, self.nsample, self.use_xyz = radius, nsample, use_xyz

    def forward(
        self,
        xyz: Tensor,
        xyz_batch_cnt: Tensor,
        new_xyz: Tensor,
        new_xyz_batch_cnt: Tensor,
        features: Tensor | None = None,
    ) -> tuple[Tensor, Tensor]:
        """(N, 3), (M, 3), (N, C) -> (M, 3 + C, nsample), 0 in an empty ball; and the rows."""
        if features is None and not self.use_xyz:
            raise ValueError("features: expected a tensor where use_xyz is False, got None")
        idx, empty = ball_query(
            self.radius, self.nsample, xyz, xyz_batch_cnt, new_xyz, new_xyz_batch_cnt
        )
        grouped = []
        if self.use_xyz or features is None:
            near = grouping_operation(xyz, xyz_batch_cnt, idx, new_xyz_batch_cnt)
            grouped.append(near - new_xyz[..., None])
        if features is not None:
            grouped.append(grouping_operation(features, xyz_batch_cnt, idx, new_xyz_batch_cnt))
        return torch.cat(grouped, dim=1).masked_fill(empty[:, None, None], 0), idx


def three_nn(
    unknown: Tensor, unknown_batch_cnt: Tensor, known: Tensor, known_batch_cnt: Tensor
) -> tuple[Tensor, Tensor]:
    """(N, 3), (M, 3) -> distances and rows of `known` of the three nearest, (N, 3).

    A cloud of fewer than three repeats the nearest at an infinite distance.
    """
    offsets, queries = (
        torch.tensor(_bounds(name, counts, points), device=known.device)
        for name, counts, points in (
            ("known_batch_cnt", known_batch_cnt, known),
            ("unknown_batch_cnt", unknown_batch_cnt, unknown),
        )
    )
    squared, idx = torch.ops.farpoint.knn_ragged(
        known.detach(), unknown.detach(), 3, offsets, queries
    )
    return squared.sqrt(), idx.where(idx >= 0, idx[:, :1])


def three_interpolate(features: Tensor, idx: Tensor, weight: Tensor) -> Tensor:
    """(M, C), (N, 3), (N, 3) -> (N, C): weighted sums of three rows, with every gradient."""
    return (features[idx.long()] * weight[..., None]).sum(1)


def three_nn_for_vector_pool_by_two_step(
    support_xyz: Tensor,
    xyz_batch_cnt: Tensor,
    new_xyz: Tensor,
    new_xyz_grid_centers: Tensor,
    new_xyz_batch_cnt: Tensor,
    max_neighbour_distance: float,
    nsample: int,
    neighbor_type: int,
    avg_length_of_neighbor_idxs: int,  # noqa: ARG001  room is made as needed
    num_total_grids: int,  # noqa: ARG001  that of the tensor
    neighbor_distance_multiplier: float,
) -> tuple[Tensor, Tensor, Tensor]:
    """Of the neighbors of each new point the three nearest to each center of its grid (M, G, 3).

    Neighbors are the lowest 1000 rows within the distance, or nsample > 0 of them, in a ball
    (neighbor_type 1) or a cube.

    Returns:
        Distances and rows (M, G, 3), the nearest again where there are fewer than three, infinity
        and row -1 where there is none; and the mean number of neighbors, rounded up.
    """
    reach = max_neighbour_distance * neighbor_distance_multiplier
    points = support_xyz.detach()
    query, row = _around(points, xyz_batch_cnt, new_xyz, new_xyz_batch_cnt, reach, neighbor_type)
    most = min(nsample, _MOST_NEIGHBORS) if nsample > 0 else _MOST_NEIGHBORS
    few = _place(query) < most
    query, row = query[few], row[few]
    counts = query.bincount(minlength=len(new_xyz))
    rows = row.new_zeros(len(new_xyz), max([1, *counts.tolist()]))
    rows = rows.index_put((query, _place(query)), row)
    idx, squared = neighbors.knn(
        points[rows], new_xyz_grid_centers.detach(), 3, lengths=counts.clamp(min=1)
    )
    empty = (counts == 0)[:, None, None]
    squared = squared.where(squared.isfinite(), squared[..., :1]).masked_fill(empty, torch.inf)
    found = rows.gather(1, idx.flatten(1).long()).view(idx.shape).masked_fill(empty, -1)
    return squared.sqrt(), found.int(), torch.tensor(-(-len(query) // max(1, len(new_xyz))))


def _cells(local: Tensor, query: Tensor, reach: float, grid: tuple[int, int, int]) -> Tensor:
    """The cell of each neighbor in the grid of its new point, counted over all new points."""
    sizes = local.new_tensor(grid)
    x, y, z = ((local + reach) / (2 * reach / sizes)).floor().minimum(sizes - 1).long().unbind(1)
    return ((query * grid[0] + x) * grid[1] + y) * grid[2] + z


def vector_pool_with_voxel_query_op(
    support_xyz: Tensor,
    xyz_batch_cnt: Tensor,
    support_features: Tensor,
    new_xyz: Tensor,
    new_xyz_batch_cnt: Tensor,
    num_grid_x: int,
    num_grid_y: int,
    num_grid_z: int,
    max_neighbour_distance: float,
    num_c_out_each_grid: int,
    use_xyz: int,
    num_mean_points_per_grid: int = 100,  # noqa: ARG001  room is made as needed
    nsample: int = -1,
    neighbor_type: int = 0,
    pooling_type: int = 0,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Features of the neighbors of each new point, pooled in each of the G cells of its grid.

    Channels are added up in groups of num_c_out_each_grid. A cell takes the mean of its points
    (pooling_type 0) or its lowest row. Each new point has nsample > 0 neighbors at most, or all.

    Returns:
        Features (M, G * C), coordinates relative to the new point (M, G * 3), the mean number of
        points of a new point, rounded up, and the number of each cell, int32 (M, G).
    """
    channels = support_features.size(1)
    if channels % num_c_out_each_grid:
        raise ValueError(
            f"support_features: expected a multiple of {num_c_out_each_grid} channels, "
            f"got {channels}"
        )
    reach, total = max_neighbour_distance, num_grid_x * num_grid_y * num_grid_z
    query, row = _around(
        support_xyz, xyz_batch_cnt, new_xyz, new_xyz_batch_cnt, reach, neighbor_type
    )
    local = (support_xyz[row] - new_xyz[query]).detach()
    cell = _cells(local, query, reach, (num_grid_x, num_grid_y, num_grid_z))
    order = torch.arange(len(cell), device=cell.device)
    if pooling_type:
        first = torch.full((len(new_xyz) * total,), len(cell), device=cell.device)
        order = order[first.scatter_reduce(0, cell, order, "amin")[cell] == order]
    if nsample > 0:
        order = order[_place(query[order]) < nsample]
    cell, counts = cell[order], cell[order].bincount(minlength=len(new_xyz) * total)

    def mean(values: Tensor) -> Tensor:
        sums = values.new_zeros(len(counts), values.size(1)).index_add(0, cell, values)
        return (sums / counts.clamp(min=1)[:, None]).view(len(new_xyz), total * values.size(1))

    shape = len(support_xyz), channels // num_c_out_each_grid, num_c_out_each_grid
    groups = support_features.view(shape)
    features = groups[:, -1] if pooling_type else groups.sum(1)
    number = torch.tensor([-(-len(cell) // max(1, len(new_xyz)))], dtype=torch.int32)
    places = mean(local[order]) * bool(use_xyz)
    return mean(features[row[order]]), places, number, counts.view(-1, total).int()


def voxel_query(
    max_range: list[int],
    radius: float,
    nsample: int,
    xyz: Tensor,
    new_xyz: Tensor,
    new_coords: Tensor,
    point_indices: Tensor,
) -> tuple[Tensor, Tensor]:
    """Points within the radius in the voxels around each query: rows and which have none.

    Args:
        max_range: Voxels to look at on either side, along z, y and x.
        radius: Distance of a point, at most.
        nsample: Rows of each query; the first found fills the places left, 0 where there is none.
        xyz: Points (N, 3).
        new_xyz: Queries (M, 3).
        new_coords: Cloud and voxel z, y, x of each query (M, 4).
        point_indices: Point of each voxel (B, Z, Y, X), -1 where it has none.

    Returns:
        Rows int32 (M, nsample), in the order of the voxels, and bool (M,).
    """
    device = xyz.device
    reach = [torch.arange(-steps, steps + 1, device=device) for steps in max_range]
    around = torch.cartesian_prod(*reach)
    size = torch.tensor(point_indices.shape[1:], device=device)
    found = []
    for part in in_parts(torch.arange(len(new_xyz), device=device), len(around)):
        voxels = new_coords[part, None, 1:].long() + around
        inside = ((voxels >= 0) & (voxels < size)).all(-1)
        z, y, x = voxels.clamp(min=0).minimum(size - 1).unbind(-1)
        rows = point_indices[new_coords[part, :1].long(), z, y, x].long()
        squared = (xyz[rows.clamp(min=0)] - new_xyz[part, None]).square().sum(-1)
        order, taken = first_of(inside & (rows >= 0) & (squared <= radius * radius), nsample)
        found.append((rows.gather(1, order).where(taken.any(1, keepdim=True), 0).int(), taken))
    idx, taken = (torch.cat(values) for values in zip(*found, strict=True))
    return idx, ~taken[:, 0]


class VoxelQueryAndGrouping(nn.Module):
    """Groups of up to `nsample` points that `voxel_query` finds around each query."""

    def __init__(self, max_range: list[int], radius: float, nsample: int) -> None:
        super().__init__()
        self.max_range, self.radius, self.nsample = max_range, radius, nsample

    def forward(
        self,
        new_coords: Tensor,
        xyz: Tensor,
        xyz_batch_cnt: Tensor,
        new_xyz: Tensor,
        new_xyz_batch_cnt: Tensor,  # noqa: ARG002  new_coords has the clouds
        features: Tensor,
        voxel2point_indices: Tensor,
    ) -> tuple[Tensor, Tensor, Tensor]:
        """(M, C, nsample), (M, 3, nsample), the first point of the cloud in an empty group (M,)."""
        idx, empty = voxel_query(
            *(self.max_range, self.radius, self.nsample),
            *(xyz, new_xyz, new_coords, voxel2point_indices),
        )
        firsts = (xyz_batch_cnt.cumsum(0) - xyz_batch_cnt)[new_coords[:, 0].long()]
        rows = idx.long().where(~empty[:, None], firsts[:, None])
        return features[rows].transpose(1, 2), xyz[rows].transpose(1, 2), empty


def _around(
    xyz: Tensor, counts: Tensor, new_xyz: Tensor, new_counts: Tensor, reach: float, shape: int
) -> tuple[Tensor, Tensor]:
    """Queries and rows (P,) of the points at most `reach` away, in a ball (1) or a cube."""
    pairs = [torch.empty(2, 0, dtype=torch.int64, device=xyz.device)]
    for cloud, queries in pairs_of_clouds(
        _counts("xyz_batch_cnt", counts, xyz), _counts("new_xyz_batch_cnt", new_counts, new_xyz)
    ):
        points, centers = xyz[cloud].detach(), new_xyz[queries].detach()
        most = 64
        while True:  # a little more than the ball, or than the ball around the cube
            rows, taken = within(points, centers, reach * (1.01 if shape == 1 else 1.75), most)
            if most >= len(points) or not bool(taken[:, -1].any()):
                break
            most *= 4
        apart = points[rows] - centers[:, None]
        squared = apart.square().sum(-1) if shape == 1 else apart.abs().amax(-1).square()
        query, place = (taken & (squared <= reach * reach)).nonzero().T
        pairs.append(torch.stack([query + queries.start, rows[query, place] + cloud.start]))
    query, row = torch.cat(pairs, 1)
    return query, row


def _place(query: Tensor) -> Tensor:
    """Place of each pair among those of its query, which are one behind the other."""
    return torch.arange(len(query), device=query.device) - torch.searchsorted(query, query)


def _counts(name: str, counts: Tensor, points: Tensor) -> list[int]:
    """Points of each cloud, on the host."""
    sizes = to_list(name, counts)
    if sum(sizes) != len(points) or min(sizes, default=0) < 0:
        raise ValueError(f"{name}: expected numbers that add up to {len(points)}, got {sizes}")
    return sizes


def _bounds(name: str, counts: Tensor, points: Tensor) -> list[int]:
    return list(accumulate(_counts(name, counts, points), initial=0))


StackFarthestPointSampling = Applied(stack_farthest_point_sample)
BallQuery = Applied(ball_query)
GroupingOperation = Applied(grouping_operation)
ThreeNN = Applied(three_nn)
ThreeInterpolate = Applied(three_interpolate)
ThreeNNForVectorPoolByTwoStep = Applied(three_nn_for_vector_pool_by_two_step)
VectorPoolWithVoxelQuery = Applied(vector_pool_with_voxel_query_op)
VoxelQuery = Applied(voxel_query)
