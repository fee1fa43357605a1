"""Batch norms folded into the layers before them: fewer ops, the same answers."""

import pytest
import torch
from torch import Tensor, nn

from farpoint_models.programs.fold import fold

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
