"""interpolate and its two derivative ops against plain torch."""

import pytest
import torch
from torch import Tensor

from farpoint_ops import interpolate, reference

ops = torch.ops.farpoint


def random(device: torch.device, *shape: int) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(len(shape))).to(device)


def make_idx(device: torch.device, high: int, *shape: int) -> Tensor:
    return torch.randint(high, shape, generator=torch.Generator().manual_seed(1)).to(device)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("index", [torch.int32, torch.int64])
def test_the_three_products_equal_the_reference(
    device: torch.device, dtype: torch.dtype, index: torch.dtype
) -> None:
    features, values = random(device, 3, 5, 40).to(dtype), random(device, 3, 5, 90).to(dtype)
    weight = torch.rand(3, 90, 3, generator=torch.Generator().manual_seed(2)).to(device, dtype)
    idx = make_idx(device, 40, 3, 90, 3).to(index)
    torch.testing.assert_close(
        interpolate(features, idx, weight), reference.interpolate(features, idx, weight)
    )
    torch.testing.assert_close(
        ops.interpolate_scatter(values, idx, weight, 45),
        reference.interpolate_scatter(values, idx, weight, 45),
    )
    torch.testing.assert_close(
        ops.interpolate_dot(values, features, idx), reference.interpolate_dot(values, features, idx)
    )


def test_a_weight_of_one_is_a_gather(device: torch.device) -> None:
    features, idx = random(device, 2, 6, 30), make_idx(device, 30, 2, 50, 1)
    weight = torch.ones(2, 50, 1, device=device)
    assert torch.equal(
        interpolate(features, idx, weight), reference.gather_points(features, idx[..., 0])
    )


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_halves_are_summed_in_float32(device: torch.device, dtype: torch.dtype) -> None:
    """4096 ones sum to 4096; bfloat16 sums would stop at 256, float16 ones at 2048."""
    one = torch.ones(1, 1, 1, dtype=dtype, device=device)
    idx = torch.zeros(1, 1, 4096, dtype=torch.int32, device=device)
    many = one.expand(1, 1, 4096)
    assert interpolate(one, idx, many).item() == 4096
    assert ops.interpolate_scatter(one, idx, many, 1).item() == 4096
    channels = one.expand(1, 4096, 1)
    assert ops.interpolate_dot(channels, channels, idx[..., :1]).item() == 4096
    assert interpolate(one, idx, many).dtype == dtype


def test_weights_take_the_dtype_of_the_features(device: torch.device) -> None:
    features = random(device, 1, 2, 5).bfloat16()
    weight = torch.rand(1, 4, 3, device=device, requires_grad=True)
    out = interpolate(features, make_idx(device, 5, 1, 4, 3), weight)
    assert out.dtype == torch.bfloat16
    out.sum().backward()
    assert weight.grad is not None
    assert weight.grad.dtype == torch.float32


def test_a_large_sum_takes_every_thread_and_the_same_values(device: torch.device) -> None:
    features, values = random(device, 4, 32, 500), random(device, 4, 32, 6000)
    idx, weight = make_idx(device, 500, 4, 6000, 3), random(device, 4, 6000, 3)
    torch.testing.assert_close(
        interpolate(features, idx, weight), reference.interpolate(features, idx, weight)
    )
    torch.testing.assert_close(
        ops.interpolate_dot(values, features, idx), reference.interpolate_dot(values, features, idx)
    )


def test_strided_and_expanded_input_is_read_as_it_is(device: torch.device) -> None:
    features = random(device, 2, 30, 8).transpose(1, 2)
    idx, weight = make_idx(device, 30, 1, 3, 9).transpose(1, 2).expand(2, 9, 3), random(device, 3)
    actual = interpolate(features, idx, weight.expand(2, 9, 3))
    torch.testing.assert_close(actual, reference.interpolate(features, idx, weight.expand(2, 9, 3)))


@pytest.mark.parametrize(
    "sizes", [(0, 3, 4, 5, 2), (2, 0, 4, 5, 2), (2, 3, 4, 0, 2), (2, 3, 0, 5, 0)]
)
def test_empty_sizes(device: torch.device, sizes: tuple[int, ...]) -> None:
    batch, channels, columns, points, corners = sizes
    features = torch.zeros(batch, channels, columns, device=device, requires_grad=True)
    weight = torch.zeros(batch, points, corners, device=device, requires_grad=True)
    idx = torch.zeros(batch, points, corners, dtype=torch.int64, device=device)
    out = interpolate(features, idx, weight)
    assert out.tolist() == torch.zeros(batch, channels, points).tolist()
    out.sum().backward()
    assert features.grad is not None
    assert weight.grad is not None
