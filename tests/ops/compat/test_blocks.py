"""Blocks of published models, written to the signatures of the originals, run unchanged.

Each block takes the library that it calls as an argument: the compat module, or a twin in plain
torch whose gradients are torch's own.
"""

from types import ModuleType, SimpleNamespace

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

from farpoint_ops import reference
from farpoint_ops.compat import pointnet2, pointops
from farpoint_ops.compat.pointops import batched

Library = ModuleType | SimpleNamespace


def plain_three_nn(unknown: Tensor, known: Tensor) -> tuple[Tensor, Tensor]:
    idx, squared = reference.knn(known.detach(), unknown.detach(), 3)
    return squared.sqrt(), idx


def plain_ball_query(radius: float, nsample: int, xyz: Tensor, new_xyz: Tensor) -> Tensor:
    return reference.ball_query(xyz.detach(), new_xyz.detach(), radius, nsample)[0]


class PlainQueryAndGroup(nn.Module):
    def __init__(self, radius: float, nsample: int, use_xyz: bool) -> None:
        super().__init__()
        assert use_xyz
        self.radius, self.nsample = radius, nsample

    def forward(self, xyz: Tensor, new_xyz: Tensor, features: Tensor) -> Tensor:
        idx = plain_ball_query(self.radius, self.nsample, xyz, new_xyz)
        grouped = reference.group_points(xyz.transpose(1, 2), idx)
        relative = grouped - new_xyz.transpose(1, 2)[..., None]
        return torch.cat([relative, reference.group_points(features, idx)], 1)


class PlainGroupAll(nn.Module):
    def __init__(self, use_xyz: bool) -> None:
        super().__init__()
        assert use_xyz

    def forward(self, xyz: Tensor, new_xyz: None, features: Tensor) -> Tensor:
        assert new_xyz is None
        return torch.cat([xyz.transpose(1, 2), features], 1)[:, :, None]


PLAIN_POINTNET2 = SimpleNamespace(
    furthest_point_sample=lambda xyz, m: reference.furthest_point_sample(xyz.detach(), m)[0],
    gather_operation=reference.gather_points,
    three_nn=plain_three_nn,
    three_interpolate=reference.interpolate,
    QueryAndGroup=PlainQueryAndGroup,
    GroupAll=PlainGroupAll,
    BallQuery=SimpleNamespace(apply=plain_ball_query),
    GroupingOperation=SimpleNamespace(apply=reference.group_points),
)


def each(xyz: Tensor, offset: Tensor, new_xyz: Tensor, new_offset: Tensor, k: int) -> Tensor:
    """Rows of the k nearest points (m, k), cloud by cloud."""
    rows, first = [], 0
    begins = [0, *new_offset.tolist()[:-1]]
    for end, begin, stop in zip(offset.tolist(), begins, new_offset.tolist(), strict=True):
        idx, _ = reference.knn(xyz[None, first:end].detach(), new_xyz[None, begin:stop].detach(), k)
        rows.append(idx[0].long() + first)
        first = end
    return torch.cat(rows)


def plain_sampling(xyz: Tensor, offset: Tensor, new_offset: Tensor) -> Tensor:
    samples = new_offset.diff(prepend=new_offset.new_zeros(1)).tolist()
    rows, _ = reference.furthest_point_sample_ragged(
        xyz.detach(), [0, *offset.tolist()], samples, [0] * len(samples)
    )
    return rows


def plain_knn_and_group(
    feat: Tensor,
    xyz: Tensor,
    offset: Tensor,
    new_xyz: Tensor,
    new_offset: Tensor,
    idx: Tensor | None = None,
    nsample: int = 0,
    with_xyz: bool = False,
) -> tuple[Tensor, Tensor]:
    idx = each(xyz, offset, new_xyz, new_offset, nsample) if idx is None else idx
    relative = xyz[idx] - new_xyz[:, None]
    return (torch.cat([relative, feat[idx]], -1) if with_xyz else feat[idx]), idx


def plain_interpolation(
    xyz: Tensor, new_xyz: Tensor, feat: Tensor, offset: Tensor, new_offset: Tensor
) -> Tensor:
    idx = each(xyz, offset, new_xyz, new_offset, 3)
    dist = (xyz[idx] - new_xyz[:, None]).norm(dim=-1).detach()
    weight = 1 / (dist + 1e-8)
    return (feat[idx] * (weight / weight.sum(1, keepdim=True))[..., None]).sum(1)


PLAIN_POINTOPS = SimpleNamespace(
    farthest_point_sampling=plain_sampling,
    furthestsampling=plain_sampling,
    knn_query_and_group=plain_knn_and_group,
    interpolation=plain_interpolation,
    queryandgroup=lambda k, p, n_p, x, idx, o, n_o, use_xyz: plain_knn_and_group(
        x, p, o, n_p, n_o, idx, k, use_xyz
    )[0],
    knnquery=lambda k, p, n_p, o, n_o: (each(p, o, n_p, n_o, k), None),
    grouping=lambda x, idx: x[idx],
    subtraction=lambda a, b, idx: a[:, None] - b[idx],
    aggregation=lambda x, position, w, idx: (
        (x[idx] + position) * w.repeat(1, 1, x.size(1) // w.size(2))
    ).sum(1),
)


PLAIN_DPCC = SimpleNamespace(
    furthestsampling=lambda xyz, m: reference.furthest_point_sample(xyz.detach(), m)[0],
    gathering=reference.gather_points,
    knnquery_heap=lambda k, xyz, new: reference.knn(xyz.detach(), new.detach(), k)[0],
    grouping=reference.group_points,
    grouping_int=reference.group_points,
)


def clouds(device: torch.device, *shape: int) -> Tensor:
    return torch.rand(*shape, generator=torch.Generator().manual_seed(1)).to(device)


def assert_same_gradients(block: nn.Module, twin: nn.Module, inputs: tuple[Tensor, ...]) -> None:
    """Equal outputs, and equal gradients of a loss for every input and parameter."""
    twin.load_state_dict(block.state_dict())
    results = []
    for module in (block, twin):
        own = tuple(t.detach().clone().requires_grad_(t.is_floating_point()) for t in inputs)
        out = module(*own)
        wanted = [*(t for t in own if t.requires_grad), *module.parameters()]
        results.append((out, *torch.autograd.grad(out.square().mean(), wanted)))
    for actual, expected in zip(*results, strict=True):
        torch.testing.assert_close(actual, expected, rtol=1e-4, atol=1e-6)
        assert actual.abs().sum() > 0


class SetAbstraction(nn.Module):
    """PointNet++: sample, group in balls around the samples, and pool."""

    def __init__(self, library: Library, npoint: int, radius: float, nsample: int) -> None:
        super().__init__()
        self.library, self.npoint = library, npoint
        self.grouper = library.QueryAndGroup(radius, nsample, use_xyz=True)
        self.everything = library.GroupAll(use_xyz=True)
        self.near = nn.Sequential(nn.Conv2d(7, 8, 1, bias=False), nn.BatchNorm2d(8), nn.ReLU(True))
        self.all = nn.Conv2d(11, 6, 1)

    def sample(self, xyz: Tensor) -> Tensor:
        flipped = xyz.transpose(1, 2).contiguous()
        idx = self.library.furthest_point_sample(xyz, self.npoint)
        return self.library.gather_operation(flipped, idx).transpose(1, 2).contiguous()

    def forward(self, xyz: Tensor, features: Tensor) -> Tensor:
        new_xyz = self.sample(xyz)
        grouped = self.near(self.grouper(xyz, new_xyz, features))
        pooled = functional.max_pool2d(grouped, kernel_size=[1, grouped.size(3)]).squeeze(-1)
        dist, idx = self.library.three_nn(xyz, new_xyz)
        reciprocal = 1.0 / (dist + 1e-8)
        weight = reciprocal / reciprocal.sum(dim=2, keepdim=True)
        upsampled = self.library.three_interpolate(pooled, idx, weight)
        return self.all(self.everything(xyz, None, upsampled))


class OwnGrouper(nn.Module):
    """The code of many copies of pointnet2, a subtraction in place included."""

    def __init__(self, library: Library, radius: float, nsample: int) -> None:
        super().__init__()
        self.library, self.radius, self.nsample = library, radius, nsample
        self.layer = nn.Conv2d(3, 5, 1)

    def forward(self, xyz: Tensor) -> Tensor:
        centers = xyz[:, :9].contiguous()
        idx = self.library.BallQuery.apply(self.radius, self.nsample, xyz, centers)
        grouped = self.library.GroupingOperation.apply(xyz.transpose(1, 2).contiguous(), idx)
        grouped -= centers.transpose(1, 2).unsqueeze(-1)
        return self.layer(grouped)


def test_pointnet2_set_abstraction_and_feature_propagation(device: torch.device) -> None:
    block, twin = (
        SetAbstraction(library, npoint=16, radius=0.4, nsample=8).to(device)
        for library in (pointnet2, PLAIN_POINTNET2)
    )
    xyz = clouds(device, 2, 60, 3)
    assert_same_gradients(block, twin, (xyz, clouds(device, 2, 4, 60)))


def test_a_grouper_of_its_own_that_subtracts_in_place(device: torch.device) -> None:
    block, twin = (OwnGrouper(lib, 0.3, 6).to(device) for lib in (pointnet2, PLAIN_POINTNET2))
    assert_same_gradients(block, twin, (clouds(device, 2, 60, 3),))


class Voting(nn.Module):
    """VoteNet's: a convolution with a bias in front of a batch normalization."""

    def __init__(self, library: Library) -> None:
        super().__init__()
        self.library = library
        self.conv, self.norm, self.out = nn.Conv1d(4, 8, 1), nn.BatchNorm1d(8), nn.Conv1d(8, 2, 1)

    def forward(self, xyz: Tensor, features: Tensor) -> Tensor:
        rows = self.library.furthest_point_sample(xyz, 20)
        seeds = self.library.gather_operation(features, rows)
        return self.out(self.norm(self.conv(seeds)).relu())


def test_a_bias_in_front_of_a_normalization_has_no_gradient_but_rounding(
    device: torch.device,
) -> None:
    """So the relative difference of two libraries is about 1 there; in float64 nothing differs.

    In VoteNet it is the four biases of its voting and proposal modules, of 1e-7 at the most.
    """
    xyz, features = clouds(device, 2, 60, 3), clouds(device, 2, 4, 60)
    for dtype, rounding in ((torch.float32, 1e-5), (torch.float64, 1e-13)):
        gradients = []
        for library in (pointnet2, PLAIN_POINTNET2):
            torch.manual_seed(0)
            block = Voting(library).to(device, dtype)
            block(xyz.to(dtype), features.to(dtype)).square().sum().backward()
            gradients.append({name: p.grad for name, p in block.named_parameters()})
        ours, plain = gradients
        assert ours.pop("conv.bias").abs().max() < rounding * ours["conv.weight"].abs().max()
        for name, gradient in ours.items():
            torch.testing.assert_close(gradient, plain[name])


class PointTransformer(nn.Module):
    """Zhao et al., "Point Transformer", ICCV 2021, on offsets: down, attention, and up again."""

    def __init__(self, library: Library, nsample: int) -> None:
        super().__init__()
        self.library, self.nsample = library, nsample
        self.down, self.pool = nn.Linear(3 + 4, 8, bias=False), nn.MaxPool1d(nsample)
        self.norm = nn.BatchNorm1d(8)
        self.q, self.k, self.v = nn.Linear(8, 8), nn.Linear(8, 8), nn.Linear(8, 8)
        self.p = nn.Sequential(nn.Linear(3, 3), nn.ReLU(inplace=True), nn.Linear(3, 8))
        self.w = nn.Sequential(nn.ReLU(inplace=True), nn.Linear(8, 2))

    def transition_down(self, p: Tensor, x: Tensor, o: Tensor, n_o: Tensor) -> tuple[Tensor, ...]:
        n_p = p[self.library.farthest_point_sampling(p, o, n_o).long(), :]
        x, _ = self.library.knn_query_and_group(
            x, p, offset=o, new_xyz=n_p, new_offset=n_o, nsample=self.nsample, with_xyz=True
        )
        x = self.norm(self.down(x).transpose(1, 2).contiguous()).relu()
        return n_p, self.pool(x).squeeze(-1)

    def attention(self, p: Tensor, x: Tensor, o: Tensor) -> Tensor:
        x_q, x_k, x_v = self.q(x), self.k(x), self.v(x)
        x_k, idx = self.library.knn_query_and_group(
            x_k, p, o, new_xyz=p, new_offset=o, nsample=self.nsample, with_xyz=True
        )
        x_v, _ = self.library.knn_query_and_group(
            x_v, p, o, new_xyz=p, new_offset=o, idx=idx, nsample=self.nsample, with_xyz=False
        )
        p_r, x_k = self.p(x_k[:, :, 0:3]), x_k[:, :, 3:]
        w = self.w(x_k - x_q.unsqueeze(1) + p_r).softmax(dim=1)
        return ((x_v + p_r).unflatten(-1, (-1, 2)) * w.unsqueeze(2)).sum(1).flatten(1)

    def forward(self, p: Tensor, x: Tensor, o: Tensor, n_o: Tensor) -> Tensor:
        n_p, n_x = self.transition_down(p, x, o, n_o)
        n_x = n_x + self.attention(n_p, n_x, n_o)
        return self.library.interpolation(n_p, p, n_x, n_o, o)


class OriginalPointTransformer(PointTransformer):
    """The first release of the same, with its names and its orders."""

    def transition_down(self, p: Tensor, x: Tensor, o: Tensor, n_o: Tensor) -> tuple[Tensor, ...]:
        n_p = p[self.library.furthestsampling(p, o, n_o).long(), :]
        x = self.library.queryandgroup(self.nsample, p, n_p, x, None, o, n_o, use_xyz=True)
        x = self.norm(self.down(x).transpose(1, 2).contiguous()).relu()
        return n_p, self.pool(x).squeeze(-1)

    def attention(self, p: Tensor, x: Tensor, o: Tensor) -> Tensor:
        idx, _ = self.library.knnquery(self.nsample, p, p, o, o)
        position = self.p(p.unsqueeze(1) - self.library.grouping(p, idx))
        w = self.w(self.library.subtraction(self.q(x), self.k(x), idx) + position)
        return self.library.aggregation(self.v(x), position, w.softmax(dim=1), idx)


@pytest.mark.parametrize("block", [PointTransformer, OriginalPointTransformer])
def test_point_transformer(device: torch.device, block: type[PointTransformer]) -> None:
    ours, twin = (block(library, 5).to(device) for library in (pointops, PLAIN_POINTOPS))
    offset = torch.tensor([40, 110], dtype=torch.int32, device=device)
    new_offset = torch.tensor([10, 27], dtype=torch.int32, device=device)
    p, x = clouds(device, 110, 3), clouds(device, 110, 4)
    assert_same_gradients(ours, twin, (p, x, offset, new_offset))


class DensityStage(nn.Module):
    """The down-sampling of D-PCC: samples, their collapsed sets, and their neighbors."""

    def __init__(self, library: Library, m: int, k: int) -> None:
        super().__init__()
        self.library, self.m, self.k = library, m, k
        self.layer = nn.Conv2d(3 + 4, 8, 1)

    def forward(self, xyz: Tensor, features: Tensor) -> Tensor:
        idx = self.library.furthestsampling(xyz, self.m)
        samples = self.library.gathering(xyz.transpose(1, 2).contiguous(), idx)
        samples = samples.transpose(1, 2).contiguous()
        owner = self.library.knnquery_heap(1, samples, xyz)  # (b, n, 1)
        neighbors = self.library.knnquery_heap(self.k, xyz, samples)  # (b, m, k)
        owners = self.library.grouping_int(owner.transpose(1, 2).long().contiguous(), neighbors)
        own = owners.squeeze(1) == torch.arange(self.m, device=xyz.device)[:, None]
        relative = self.library.grouping(xyz.transpose(1, 2).contiguous(), neighbors)
        relative = relative - samples.transpose(1, 2)[..., None]
        grouped = torch.cat([relative, self.library.grouping(features, neighbors)], 1)
        return (self.layer(grouped) * own[:, None]).sum(-1)


def test_the_density_stage_of_dpcc(device: torch.device) -> None:
    block, twin = (DensityStage(lib, 12, 6).to(device) for lib in (batched, PLAIN_DPCC))
    assert_same_gradients(block, twin, (clouds(device, 2, 50, 3), clouds(device, 2, 4, 50)))
