"""Every function and module of the drop-ins, each with a call that is right."""

from collections.abc import Callable
from typing import Any

import torch
from tests.support.calls import Call
from torch import nn

from farpoint_ops.compat import (
    knn_cuda,
    pointnet2,
    pointnet2_stack,
    pointops,
    pytorch3d,
    torch_cluster,
)
from farpoint_ops.compat.pointops import batched

MODULES = (pointnet2, pointnet2_stack, pointops, batched, torch_cluster, pytorch3d, knn_cuda)


def padded(b: int, n: int) -> dict[str, Any]:
    """Clouds (b, n, 3) and what is made of them."""
    made = torch.Generator().manual_seed(n)
    xyz = torch.rand(b, n, 3, generator=made)
    rows = torch.randint(0, n, (b, 6, 3), generator=made)
    features = torch.rand(b, 4, n, generator=made)
    return {
        **{"xyz": xyz, "new_xyz": xyz[:, :6] + 0.01, "features": features, "rows": rows},
        **{"weight": torch.rand(b, 6, 3, generator=made), "lengths": torch.full((b,), n - 1)},
    }


def flat(b: int, n: int) -> dict[str, Any]:
    """The same one after the other, with the three ways to say where a cloud ends."""
    made = padded(b, n)
    return {
        **{"xyz": made["xyz"].flatten(0, 1), "new_xyz": made["new_xyz"].flatten(0, 1)},
        **{"features": made["features"].mT.flatten(0, 1), "rows": made["rows"].flatten(0, 1)},
        **{"weight": made["weight"].flatten(0, 1), "size": torch.full((3,), 0.25)},
        **{"batch": torch.arange(b).repeat_interleave(n)},
        **{"new_batch": torch.arange(b).repeat_interleave(6)},
        **{"counts": torch.full((b,), n), "new_counts": torch.full((b,), 6)},
        **{"ends": torch.arange(1, b + 1) * n, "new_ends": torch.arange(1, b + 1) * 6},
    }


def calls(inputs: Callable[[int, int], dict[str, Any]], lines: str) -> list[Call]:
    """Of each line ``function(name=expression)``, in which inputs have their names."""
    libraries = {module.__name__.split(".")[-1]: module for module in MODULES}

    def call_of(line: str) -> Call:
        target, rest = line.split(" <- ")
        function = eval(target, libraries)  # of this file
        function = function.forward if isinstance(function, nn.Module) else function
        module = function.__module__.rsplit("compat.", 1)[-1]
        name = f"{module}.{function.__qualname__}"
        return Call(name, function, lambda x: dict(eval(f"dict({rest})", inputs(x.b, x.n))))

    return [call_of(line) for line in lines.splitlines() if line]


PADDED = calls(
    padded,
    """
pointnet2.furthest_point_sample <- xyz=xyz, npoint=5
pointnet2.gather_operation <- features=features, idx=rows[..., 0]
pointnet2.three_nn <- unknown=xyz, known=new_xyz
pointnet2.three_interpolate <- features=features, idx=rows, weight=weight
pointnet2.grouping_operation <- features=features, idx=rows
pointnet2.ball_query <- radius=0.4, nsample=4, xyz=xyz, new_xyz=new_xyz
pointnet2.QueryAndGroup(0.4, 4) <- xyz=xyz, new_xyz=new_xyz, features=features
pointnet2.GroupAll() <- xyz=xyz, new_xyz=None, features=features
batched.knnquery_heap <- nsample=4, xyz=xyz, new_xyz=new_xyz
batched.QueryAndGroup(0.4, 4) <- xyz=xyz, new_xyz=new_xyz, features=features, idx=rows
pytorch3d.sample_farthest_points <- points=xyz, lengths=lengths, K=5, random_start_point=False
pytorch3d.knn_points <- p1=new_xyz, p2=xyz, lengths2=lengths, norm=2, K=4, return_nn=True
pytorch3d.ball_query <- p1=new_xyz, p2=xyz, lengths2=lengths, K=4, radius=0.4, return_nn=True
pytorch3d.knn_gather <- x=xyz, idx=rows, lengths=lengths
knn_cuda.KNN(4, True) <- ref=xyz, query=new_xyz
""",
)
FLAT = calls(
    flat,
    """
pointnet2_stack.stack_farthest_point_sample <- xyz=xyz, xyz_batch_cnt=counts, npoint=5
pointnet2_stack.ball_query <- radius=0.4, nsample=4, xyz=xyz, xyz_batch_cnt=counts, \
new_xyz=new_xyz, new_xyz_batch_cnt=new_counts
pointnet2_stack.grouping_operation <- features=features, features_batch_cnt=counts, idx=rows, \
idx_batch_cnt=new_counts
pointnet2_stack.QueryAndGroup(0.4, 4) <- xyz=xyz, xyz_batch_cnt=counts, new_xyz=new_xyz, \
new_xyz_batch_cnt=new_counts, features=features
pointnet2_stack.three_nn <- unknown=xyz, unknown_batch_cnt=counts, known=new_xyz, \
known_batch_cnt=new_counts
pointnet2_stack.three_interpolate <- features=features, idx=rows, weight=weight
pointops.offset2batch <- offset=ends
pointops.batch2offset <- batch=batch
pointops.farthest_point_sampling <- xyz=xyz, offset=ends, new_offset=new_ends
pointops.knn_query <- nsample=4, xyz=xyz, offset=ends, new_xyz=new_xyz, new_offset=new_ends
pointops.knnquery <- nsample=4, xyz=xyz, new_xyz=new_xyz, offset=ends, new_offset=new_ends
pointops.ball_query <- nsample=4, max_radius=0.5, min_radius=0.1, xyz=xyz, offset=ends, \
new_xyz=new_xyz, new_offset=new_ends
pointops.grouping2 <- features=features, idx=rows
pointops.grouping <- idx=rows, feat=features, xyz=xyz, new_xyz=new_xyz, with_xyz=True
pointops.knn_query_and_group <- feat=features, xyz=xyz, offset=ends, new_xyz=new_xyz, \
new_offset=new_ends, nsample=4, with_xyz=True
pointops.ball_query_and_group <- feat=features, xyz=xyz, offset=ends, new_xyz=new_xyz, \
new_offset=new_ends, max_radio=0.5, min_radio=0.1, nsample=4, with_xyz=True
pointops.query_and_group <- nsample=4, xyz=xyz, new_xyz=new_xyz, feat=features, idx=None, \
offset=ends, new_offset=new_ends, dilation=0
pointops.queryandgroup <- nsample=4, xyz=xyz, new_xyz=new_xyz, feat=features, idx=None, \
offset=ends, new_offset=new_ends, use_xyz=True
pointops.interpolation2 <- xyz=xyz, new_xyz=new_xyz, feat=features, offset=ends, \
new_offset=new_ends, k=3
torch_cluster.fps <- src=xyz, batch=batch, ratio=0.3, random_start=False
torch_cluster.knn <- x=xyz, y=new_xyz, k=4, batch_x=batch, batch_y=new_batch, cosine=False
torch_cluster.radius <- x=xyz, y=new_xyz, r=0.4, batch_x=batch, batch_y=new_batch, \
max_num_neighbors=4, ignore_same_index=False
torch_cluster.knn_graph <- x=xyz, k=4, batch=batch, loop=False, flow="source_to_target"
torch_cluster.radius_graph <- x=xyz, r=0.4, batch=batch, loop=False, max_num_neighbors=4
torch_cluster.nearest <- x=xyz, y=new_xyz, batch_x=batch, batch_y=new_batch
torch_cluster.grid_cluster <- pos=xyz, size=size, start=size * 0, end=size * 4
""",
)
CALLS = {call.name: call for call in PADDED + FLAT}
