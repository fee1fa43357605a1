"""Blocks of published models, written to the signatures of the originals, run unchanged.

Their gradients are compared with finite differences; test_batched.py and the files next to it
compare what each call returns.
"""

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

from farpoint_ops.compat import pointnet2, pointops
from farpoint_ops.compat.pointops import batched


def clouds(device: torch.device, *shape: int) -> Tensor:
    generator = torch.Generator().manual_seed(1)
    return torch.rand(*shape, generator=generator, dtype=torch.float64).to(device)


def check_gradients(block: nn.Module, *inputs: Tensor) -> None:
    """Of every parameter and of the inputs that require one; none is zero."""
    block = block.to(inputs[0])
    names, parameters = zip(*block.named_parameters(), strict=True)

    def run(*values: Tensor) -> Tensor:
        named = dict(zip(names, values, strict=False))
        return torch.func.functional_call(block, named, values[len(names) :])

    values = (*(p.detach().clone().requires_grad_() for p in parameters), *inputs)
    torch.autograd.gradcheck(run, values, fast_mode=True, nondet_tol=1e-12)
    wanted = [value for value in values if value.requires_grad]
    gradients = torch.autograd.grad(run(*values).square().sum(), wanted)
    assert all(gradient.abs().sum() > 0 for gradient in gradients)


class SetAbstraction(nn.Module):
    """PointNet++: sample, group in balls around the samples, pool, and group all."""

    def __init__(self, npoint: int, radius: float, nsample: int) -> None:
        super().__init__()
        self.npoint = npoint
        self.grouper = pointnet2.QueryAndGroup(radius, nsample, use_xyz=True)
        self.everything = pointnet2.GroupAll(use_xyz=True)
        self.near = nn.Sequential(nn.Conv2d(7, 8, 1, bias=False), nn.BatchNorm2d(8), nn.ReLU(True))
        self.all = nn.Conv2d(11, 6, 1)

    def sample(self, xyz: Tensor) -> Tensor:
        flipped = xyz.transpose(1, 2).contiguous()
        idx = pointnet2.furthest_point_sample(xyz, self.npoint)
        return pointnet2.gather_operation(flipped, idx).transpose(1, 2).contiguous()

    def forward(self, xyz: Tensor, features: Tensor) -> Tensor:
        new_xyz = self.sample(xyz)
        grouped = self.near(self.grouper(xyz, new_xyz, features))
        pooled = functional.max_pool2d(grouped, kernel_size=[1, grouped.size(3)]).squeeze(-1)
        return self.all(self.everything(new_xyz, None, pooled))


class OwnGrouper(nn.Module):
    """The code of many copies of pointnet2, a subtraction in place included."""

    def __init__(self, radius: float, nsample: int) -> None:
        super().__init__()
        self.radius, self.nsample = radius, nsample
        self.layer = nn.Conv2d(3, 5, 1)

    def forward(self, xyz: Tensor) -> Tensor:
        centers = xyz[:, :9].contiguous()
        idx = pointnet2.BallQuery.apply(self.radius, self.nsample, xyz, centers)
        grouped = pointnet2.GroupingOperation.apply(xyz.transpose(1, 2).contiguous(), idx)
        grouped -= centers.transpose(1, 2).unsqueeze(-1)
        return self.layer(grouped)


def test_pointnet2_set_abstraction(device: torch.device) -> None:
    xyz, features = clouds(device, 2, 60, 3), clouds(device, 2, 4, 60)
    check_gradients(SetAbstraction(16, 0.4, 8), xyz.requires_grad_(), features.requires_grad_())


def test_a_grouper_of_its_own_that_subtracts_in_place(device: torch.device) -> None:
    check_gradients(OwnGrouper(0.3, 6), clouds(device, 2, 60, 3).requires_grad_())


class PointTransformer(nn.Module):
    """Zhao et al., "Point Transformer", ICCV 2021, on offsets: down, and attention."""

    def __init__(self, nsample: int) -> None:
        super().__init__()
        self.nsample = nsample
        self.down, self.pool = nn.Linear(3 + 4, 8, bias=False), nn.MaxPool1d(nsample)
        self.norm = nn.BatchNorm1d(8)
        self.q, self.k, self.v = nn.Linear(8, 8), nn.Linear(8, 8), nn.Linear(8, 8)
        self.p = nn.Sequential(nn.Linear(3, 3), nn.ReLU(inplace=True), nn.Linear(3, 8))
        self.w = nn.Sequential(nn.ReLU(inplace=True), nn.Linear(8, 2))

    def transition_down(self, p: Tensor, x: Tensor, o: Tensor, n_o: Tensor) -> tuple[Tensor, ...]:
        n_p = p[pointops.farthest_point_sampling(p, o, n_o).long(), :]
        x, _ = pointops.knn_query_and_group(
            x, p, offset=o, new_xyz=n_p, new_offset=n_o, nsample=self.nsample, with_xyz=True
        )
        x = self.norm(self.down(x).transpose(1, 2).contiguous()).relu()
        return n_p, self.pool(x).squeeze(-1)

    def attention(self, p: Tensor, x: Tensor, o: Tensor) -> Tensor:
        x_q, x_k, x_v = self.q(x), self.k(x), self.v(x)
        x_k, idx = pointops.knn_query_and_group(
            x_k, p, o, new_xyz=p, new_offset=o, nsample=self.nsample, with_xyz=True
        )
        x_v, _ = pointops.knn_query_and_group(
            x_v, p, o, new_xyz=p, new_offset=o, idx=idx, nsample=self.nsample, with_xyz=False
        )
        p_r, x_k = self.p(x_k[:, :, 0:3]), x_k[:, :, 3:]
        w = self.w(x_k - x_q.unsqueeze(1) + p_r).softmax(dim=1)
        return ((x_v + p_r).unflatten(-1, (-1, 2)) * w.unsqueeze(2)).sum(1).flatten(1)

    def forward(self, p: Tensor, x: Tensor, o: Tensor, n_o: Tensor) -> Tensor:
        n_p, n_x = self.transition_down(p, x, o, n_o)
        return n_x + self.attention(n_p, n_x, n_o)


class OriginalPointTransformer(PointTransformer):
    """The first release of the same, with its names and its orders."""

    def transition_down(self, p: Tensor, x: Tensor, o: Tensor, n_o: Tensor) -> tuple[Tensor, ...]:
        n_p = p[pointops.furthestsampling(p, o, n_o).long(), :]
        x = pointops.queryandgroup(self.nsample, p, n_p, x, None, o, n_o, use_xyz=True)
        x = self.norm(self.down(x).transpose(1, 2).contiguous()).relu()
        return n_p, self.pool(x).squeeze(-1)

    def attention(self, p: Tensor, x: Tensor, o: Tensor) -> Tensor:
        idx, _ = pointops.knnquery(self.nsample, p, p, o, o)
        position = self.p(p.unsqueeze(1) - pointops.grouping(p, idx))
        w = self.w(pointops.subtraction(self.q(x), self.k(x), idx) + position)
        return pointops.aggregation(self.v(x), position, w.softmax(dim=1), idx)


@pytest.mark.parametrize("block", [PointTransformer, OriginalPointTransformer])
def test_point_transformer(device: torch.device, block: type[PointTransformer]) -> None:
    offsets = (torch.tensor(o, dtype=torch.int32, device=device) for o in ([40, 110], [10, 27]))
    p, x = clouds(device, 110, 3).requires_grad_(), clouds(device, 110, 4).requires_grad_()
    check_gradients(block(5), p, x, *offsets)


class DensityStage(nn.Module):
    """The down-sampling of D-PCC: samples, their collapsed sets, and their neighbors."""

    def __init__(self, m: int, k: int) -> None:
        super().__init__()
        self.m, self.k = m, k
        self.layer = nn.Conv2d(3 + 4, 8, 1)

    def forward(self, xyz: Tensor, features: Tensor) -> Tensor:
        idx = batched.furthestsampling(xyz, self.m)
        samples = batched.gathering(xyz.transpose(1, 2).contiguous(), idx)
        samples = samples.transpose(1, 2).contiguous()
        owner = batched.knnquery_heap(1, samples, xyz)  # (b, n, 1)
        neighbors = batched.knnquery_heap(self.k, xyz, samples)  # (b, m, k)
        owners = batched.grouping_int(owner.transpose(1, 2).long().contiguous(), neighbors)
        own = owners.squeeze(1) == torch.arange(self.m, device=xyz.device)[:, None]
        relative = batched.grouping(xyz.transpose(1, 2).contiguous(), neighbors)
        relative = relative - samples.transpose(1, 2)[..., None]
        grouped = torch.cat([relative, batched.grouping(features, neighbors)], 1)
        return (self.layer(grouped) * own[:, None]).sum(-1)


def test_the_density_stage_of_dpcc(device: torch.device) -> None:
    xyz, features = clouds(device, 2, 50, 3), clouds(device, 2, 4, 50)
    check_gradients(DensityStage(12, 6), xyz.requires_grad_(), features.requires_grad_())
