"""Graphs as the server runs them, folded and as functions: fewer ops, the same answers."""

import pytest
import torch
from torch import Tensor, nn
from torch.export import Dim

from farpoint_models.programs.flat import flat, scripted
from farpoint_models.programs.fold import fold
from farpoint_ops import ball_query, farthest_point_sample, gather_points

aten = torch.ops.aten


class Two(nn.Module):
    """A convolution whose output goes on past its batch norm, too."""

    def __init__(self) -> None:
        super().__init__()
        self.layer, self.norm = nn.Conv1d(3, 8, 1), nn.BatchNorm1d(8)

    def forward(self, x: Tensor) -> Tensor:
        found = self.layer(x)
        return torch.relu(self.norm(found)) + torch.relu(found)


def trained(module: nn.Module) -> nn.Module:
    """With statistics and weights as of a module that has seen data."""
    generator = torch.Generator().manual_seed(0)
    for one in module.modules():
        if isinstance(one, nn.modules.batchnorm._BatchNorm):
            one.running_mean.normal_(generator=generator)
            one.running_var.uniform_(0.1, 3, generator=generator)
            if one.affine:
                nn.init.normal_(one.weight, generator=generator)
                nn.init.normal_(one.bias, generator=generator)
    return module.eval()


def check(module: nn.Module, shape: tuple[int, ...]) -> list[object]:
    """The ops that are left of a module, whose answers are the same and whose input stays."""
    x = torch.randn(shape, generator=torch.Generator().manual_seed(1))
    given, module = x.clone(), trained(module)
    result = fold(torch.export.export(module, (x,)).module())
    with torch.inference_mode():
        torch.testing.assert_close(result(x), module(x), rtol=1e-5, atol=1e-5)
    assert torch.equal(x, given)
    return [node.target for node in result.graph.nodes]


@pytest.mark.parametrize(
    ("layers", "shape"),
    [
        ((nn.Conv1d(3, 8, 1, bias=False), nn.BatchNorm1d(8)), (2, 3, 16)),
        ((nn.Conv2d(3, 8, 3, padding=1, stride=2), nn.BatchNorm2d(8, affine=False)), (2, 3, 9, 9)),
        ((nn.Conv2d(4, 8, 1, groups=2), nn.BatchNorm2d(8)), (2, 4, 5, 7)),
        ((nn.Conv3d(3, 8, 2), nn.BatchNorm3d(8)), (2, 3, 4, 4, 4)),
        ((nn.Linear(3, 8), nn.BatchNorm1d(8)), (5, 3)),
        ((nn.Linear(3, 8, bias=False), nn.BatchNorm1d(8)), (5, 3)),
    ],
)
def test_a_norm_becomes_part_of_the_layer_before_it(layers, shape):
    ops = check(nn.Sequential(*layers, nn.ReLU()), shape)
    assert aten.batch_norm.default not in ops
    assert aten.relu_.default in ops
    assert aten.relu.default not in ops


@pytest.mark.parametrize(
    ("module", "shape"),
    [
        (Two(), (2, 3, 16)),
        # The channels of the layer are the last axis, those of the norm the second.
        (nn.Sequential(nn.Linear(3, 8), nn.BatchNorm1d(8), nn.ReLU()), (2, 8, 3)),
        (nn.Sequential(nn.ReLU(), nn.BatchNorm1d(3), nn.ReLU()), (2, 3, 16)),
    ],
)
def test_a_norm_that_is_no_part_of_a_layer_stays(module, shape):
    assert aten.batch_norm.default in check(module, shape)


CLOUDS = torch.rand(3, 40, 3, generator=torch.Generator().manual_seed(0))


class Sizes(nn.Module):
    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        some = (x.size(1) + 1) // 3
        return x[:, :some].reshape(x.size(0), some * 3), x.new_full((x.size(0), some), 0.5)


class Infinities(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        low = x.masked_fill(x < 0.5, -torch.inf)
        return torch.where(low < 0.7, low, torch.nan)


class Neighbors(nn.Module):
    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        centers = gather_points(x.mT, farthest_point_sample(x, 8)).mT
        return ball_query(x, centers, 0.3, 4)


class Layers(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(3, 8), nn.ReLU(), nn.Linear(8, 4))

    def forward(self, x: Tensor) -> Tensor:
        first, second = self.layers(x).chunk(2, 2)
        return first[:, :, None] * second[:, :1, :1, None].to(torch.float64)


class Branches(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return torch.cond(x.sum() > 0, lambda y: y.sin(), lambda y: y.cos(), (x,))


def graph(module: nn.Module) -> torch.fx.GraphModule:
    shapes = ({0: Dim.DYNAMIC, 1: Dim.DYNAMIC},)
    return fold(torch.export.export(module.eval(), (CLOUDS,), dynamic_shapes=shapes).module())


@pytest.mark.parametrize("module", [Sizes, Infinities, Neighbors, Layers, Branches])
def test_answers_are_those_of_python_for_any_sizes(module):
    made = graph(module())
    slow, fast = flat(made), scripted(made)
    for clouds, points in ((3, 40), (1, 25), (5, 33)):
        x = torch.rand(clouds, points, 3)
        with torch.no_grad():
            torch.testing.assert_close(fast(x), slow(x), rtol=0, atol=0, equal_nan=True)


def test_a_failure_is_told_in_the_words_of_its_op():
    made = graph(Neighbors())
    with pytest.raises(RuntimeError, match=r"\Anum_samples: expected 1 to N = 5, got 8"):
        scripted(made)(CLOUDS[:, :5])
