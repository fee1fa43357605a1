"""Graphs as functions: the same answers in TorchScript and in Python."""

import pytest
import torch
from torch import Tensor, nn
from torch.export import Dim

from farpoint_models.programs.flat import flat, scripted
from farpoint_models.programs.fold import fold
from farpoint_ops import ball_query, farthest_point_sample, gather_points

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
