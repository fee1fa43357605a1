"""Batch norms folded into the layers before them: fewer ops, the same answers."""

import pytest
import torch
from torch import Tensor, nn

from farpoint_models.programs.graph import fold

aten = torch.ops.aten


class Two(nn.Module):
    """A convolution whose output goes on beside its batch norm, too."""

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


def folded(module: nn.Module, x: Tensor) -> tuple[list[object], Tensor]:
    """The ops that are left, and what they answer."""
    result = fold(torch.export.export(module, (x,)).module())
    with torch.inference_mode():
        return [node.target for node in result.graph.nodes], result(x)


@pytest.mark.parametrize(
    ("layer", "norm", "shape"),
    [
        (nn.Conv1d(3, 8, 1, bias=False), nn.BatchNorm1d(8), (2, 3, 16)),
        (nn.Conv2d(3, 8, 3, padding=1, stride=2), nn.BatchNorm2d(8, affine=False), (2, 3, 9, 9)),
        (nn.Conv2d(4, 8, 1, groups=2), nn.BatchNorm2d(8), (2, 4, 5, 7)),
        (nn.Conv3d(3, 8, 2), nn.BatchNorm3d(8), (2, 3, 4, 4, 4)),
        (nn.Linear(3, 8), nn.BatchNorm1d(8), (5, 3)),
        (nn.Linear(3, 8, bias=False), nn.BatchNorm1d(8), (5, 3)),
    ],
)
def test_a_norm_becomes_part_of_the_layer_before_it(layer, norm, shape):
    module = trained(nn.Sequential(layer, norm, nn.ReLU()))
    x = torch.randn(shape, generator=torch.Generator().manual_seed(1))
    given = x.clone()
    ops, answer = folded(module, x)
    assert aten.batch_norm.default not in ops
    assert aten.relu_.default in ops
    assert aten.relu.default not in ops
    with torch.inference_mode():
        torch.testing.assert_close(answer, module(x), rtol=1e-5, atol=1e-5)
    assert torch.equal(x, given)


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
    module = trained(module)
    x = torch.randn(shape, generator=torch.Generator().manual_seed(1))
    given = x.clone()
    ops, answer = folded(module, x)
    assert aten.batch_norm.default in ops
    with torch.inference_mode():
        assert torch.equal(answer, module(x))
    assert torch.equal(x, given)
