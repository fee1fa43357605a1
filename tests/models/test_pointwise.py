"""Convolutions of size 1 as products of oneDNN: the same answers, and only where they pay."""

import pytest
import torch
from torch import nn
from torch.export import Dim

from farpoint_models.programs.fold import fold
from farpoint_models.programs.pointwise import pointwise, use_products

POINTS = 2048


@pytest.fixture(autouse=True)
def capability(monkeypatch):
    """The CPU's instructions; the products run on any."""
    found = ["AVX512"]
    monkeypatch.setattr(torch.backends.cpu, "get_cpu_capability", lambda: found[0])
    return found


def products(module: nn.Module, *inputs: torch.Tensor, **dimensions: object) -> int:
    """How many convolutions of a module are replaced; its answers to the inputs are the same."""
    torch.manual_seed(0)
    exported = torch.export.export(module.eval(), inputs[:1], dynamic_shapes=dimensions or None)
    result = fold(exported.module())
    use_products(result)
    for x in inputs:
        given = x.clone()
        with torch.inference_mode():
            torch.testing.assert_close(result(x), module(x), rtol=1e-5, atol=1e-5)
        assert torch.equal(x, given)
    return sum(node.target is pointwise for node in result.graph.nodes)


def points(*shape: int) -> torch.Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(1))


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("conv", [nn.Conv1d, nn.Conv2d])
@pytest.mark.parametrize("clouds", [1, 3, 16])
def test_chains_of_convolutions_and_norms_become_products(conv, bias, clouds):
    norm = nn.BatchNorm1d if conv is nn.Conv1d else nn.BatchNorm2d
    rows = (POINTS,) if conv is nn.Conv1d else (POINTS // 32, 32)
    layers = (conv(32, 64, 1, bias=bias), norm(64), nn.ReLU(), conv(64, 48, 1, bias=bias))
    assert products(nn.Sequential(*layers), points(clouds, 32, *rows)) == 2


def test_one_graph_serves_any_number_of_clouds():
    inputs = [points(clouds, 32, POINTS) for clouds in (2, 1, 0, 15, 17)]
    assert products(nn.Conv1d(32, 64, 1), *inputs, input={0: Dim.DYNAMIC}) == 1


def test_inputs_may_have_any_strides():
    rows = points(2, POINTS, 32).mT
    assert products(nn.Conv1d(32, 64, 1), rows) == 1
    assert products(nn.Conv1d(32, 64, 1), points(2, 64, 2 * POINTS)[:, ::2, ::2]) == 1
    assert products(nn.Conv1d(32, 64, 1), points(2, 32, 1).expand(2, 32, POINTS)) == 1


@pytest.mark.parametrize(
    ("module", "x"),
    [
        (nn.Conv1d(32, 64, 3), points(1, 32, POINTS)),
        (nn.Conv1d(32, 64, 1, padding=1), points(1, 32, POINTS)),
        (nn.Conv2d(32, 64, 1, stride=2), points(1, 32, POINTS // 32, 32)),
        (nn.Conv1d(32, 64, 1, groups=2), points(1, 32, POINTS)),
        (nn.Conv1d(32, 64, 1), points(32, POINTS)),
        (nn.Conv1d(32, 64, 1).double(), points(1, 32, POINTS).double()),
        # Too small to pay.
        (nn.Conv1d(32, 64, 1), points(1, 32, 32)),
    ],
)
def test_other_convolutions_stay(module, x):
    assert products(module, x) == 0


def test_a_convolution_of_varying_size_stays():
    inputs = [points(1, 32, size) for size in (POINTS, POINTS + 7)]
    assert products(nn.Conv1d(32, 64, 1), *inputs, input={2: Dim.DYNAMIC}) == 0


def test_without_avx512_all_stay(capability):
    capability[0] = "AVX2"
    assert products(nn.Conv1d(32, 64, 1), points(1, 32, POINTS)) == 0


def test_numbers_that_are_not_finite_go_on():
    x, conv = points(1, 32, POINTS), nn.Conv1d(32, 64, 1).requires_grad_(False)
    x[0, 0, :2] = torch.tensor([torch.nan, torch.inf])
    torch.testing.assert_close(
        pointwise(x, conv.weight[..., 0], conv.bias), conv(x), equal_nan=True
    )
