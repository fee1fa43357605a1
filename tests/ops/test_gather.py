"""gather_points, group_points, interpolate and the ops of their derivatives against plain torch."""

import pytest
import torch
from tests.support import reference
from tests.support.tensors import random
from torch import Tensor

from farpoint_ops import gather_points, group_points, interpolate

raw = torch.ops.farpoint
HALVES = [torch.float16, torch.bfloat16]
EXACT = [torch.uint8, torch.bool, torch.int32, torch.int64, *HALVES]
# Clouds, channels, points and samples; the second takes every thread.
SIZES = [(3, 5, 40, 90), (4, 32, 2000, 6000)]
every_size = pytest.mark.parametrize("size", SIZES)
every_index = pytest.mark.parametrize("index", [torch.int32, torch.int64])


def rows(device: torch.device, high: int, *shape: int) -> Tensor:
    return torch.randint(high, shape, generator=torch.Generator().manual_seed(1)).to(device)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, *EXACT])
@every_size
@every_index
def test_gather_and_group_equal_the_reference(
    device: torch.device, size: tuple[int, ...], dtype: torch.dtype, index: torch.dtype
) -> None:
    b, c, n, m = size
    features = (10 * random(device, b, c, n)).to(dtype)
    idx, pairs = rows(device, n, b, m).to(index), rows(device, n, b, m // 7, 7).to(index)
    assert torch.equal(gather_points(features, idx), reference.gather_points(features, idx))
    assert torch.equal(group_points(features, pairs), reference.group_points(features, pairs))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@every_size
@every_index
def test_sums_equal_the_reference(
    device: torch.device, size: tuple[int, ...], dtype: torch.dtype, index: torch.dtype
) -> None:
    b, c, n, m = size
    features, values = random(device, b, c, n).to(dtype), random(device, b, c, m).to(dtype)
    weight, idx = random(device, b, m, 3).to(dtype), rows(device, n, b, m, 3).to(index)
    for name, arguments in {
        "scatter_points": (values, idx[..., 0], n + 5),
        "interpolate": (features, idx, weight),
        "interpolate_scatter": (values, idx, weight, n + 5),
        "interpolate_dot": (values, features, idx),
    }.items():
        actual, expected = (getattr(library, name)(*arguments) for library in (raw, reference))
        torch.testing.assert_close(actual, expected)
    assert (raw.scatter_points(values, idx[..., 0], n + 5)[..., n:] == 0).all()


@pytest.mark.parametrize("dtype", HALVES)
def test_halves_are_summed_in_float32(device: torch.device, dtype: torch.dtype) -> None:
    """4096 ones sum to 4096; bfloat16 sums would stop at 256, float16 ones at 2048."""
    one = torch.ones(1, 1, 1, dtype=dtype, device=device)
    idx = torch.zeros(1, 1, 4096, dtype=torch.int32, device=device)
    many, channels = one.expand(1, 1, 4096), one.expand(1, 4096, 1)
    for total in (
        raw.scatter_points(many, idx[:, 0], 1),
        interpolate(one, idx, many),
        raw.interpolate_scatter(one, idx, many, 1),
        raw.interpolate_dot(channels, channels, idx[..., :1]),
    ):
        assert (total.item(), total.dtype) == (4096, dtype)


def test_weights_take_the_dtype_of_the_features(device: torch.device) -> None:
    features = random(device, 1, 2, 5).bfloat16()
    weight = torch.rand(1, 4, 3, device=device, requires_grad=True)
    out = interpolate(features, rows(device, 5, 1, 4, 3), weight)
    assert out.dtype == torch.bfloat16
    out.sum().backward()
    assert weight.grad is not None
    assert weight.grad.dtype == torch.float32
