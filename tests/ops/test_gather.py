"""gather_points, group_points, interpolate and the ops of their derivatives against plain torch."""

import pytest
import torch
from torch import Tensor

from farpoint_ops import gather_points, group_points, interpolate, reference

raw = torch.ops.farpoint
scatter_points = raw.scatter_points

FLOATS = [torch.float32, torch.float64, torch.float16, torch.bfloat16]
INDICES = [torch.int32, torch.int64]


def make_features(device: torch.device, *shape: int) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(0)).to(device)


def make_idx(device: torch.device, high: int, *shape: int) -> Tensor:
    return torch.randint(high, shape, generator=torch.Generator().manual_seed(1)).to(device)


@pytest.mark.parametrize("dtype", [*FLOATS, torch.uint8, torch.bool, torch.int32, torch.int64])
@pytest.mark.parametrize("index", INDICES)
def test_gather_and_group_equal_the_reference(
    device: torch.device, dtype: torch.dtype, index: torch.dtype
) -> None:
    features = (10 * make_features(device, 3, 5, 40)).to(dtype)
    idx = make_idx(device, 40, 3, 60).to(index)
    assert torch.equal(gather_points(features, idx), reference.gather_points(features, idx))
    pairs = make_idx(device, 40, 3, 12, 7).to(index)
    assert torch.equal(group_points(features, pairs), reference.group_points(features, pairs))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("index", INDICES)
def test_scatter_equals_the_reference(
    device: torch.device, dtype: torch.dtype, index: torch.dtype
) -> None:
    values = make_features(device, 2, 4, 300).to(dtype)
    idx = make_idx(device, 20, 2, 300).to(index)
    actual = scatter_points(values, idx, 25)
    torch.testing.assert_close(actual, reference.scatter_points(values, idx, 25))
    assert (actual[..., 20:] == 0).all()


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_halves_are_summed_in_float32(device: torch.device, dtype: torch.dtype) -> None:
    """4096 ones sum to 4096; bfloat16 sums would stop at 256, float16 ones at 2048."""
    values = torch.ones(1, 1, 4096, dtype=dtype, device=device)
    total = scatter_points(values, torch.zeros(1, 4096, dtype=torch.int32, device=device), 1)
    assert total.dtype == dtype
    assert total.item() == 4096


def test_a_large_gather_takes_every_thread_and_the_same_values(device: torch.device) -> None:
    features, idx = make_features(device, 4, 64, 2000), make_idx(device, 2000, 4, 5000)
    gathered = gather_points(features, idx)
    assert torch.equal(gathered, reference.gather_points(features, idx))
    torch.testing.assert_close(
        scatter_points(gathered, idx, 2000), reference.scatter_points(gathered, idx, 2000)
    )


def test_strided_and_expanded_input_is_read_as_it_is(device: torch.device) -> None:
    channels_last = make_features(device, 2, 30, 8).transpose(1, 2)
    one_idx = make_idx(device, 30, 1, 11)
    idx = one_idx.expand(2, 11)
    expected = reference.gather_points(channels_last.contiguous(), idx.contiguous())
    assert torch.equal(gather_points(channels_last, idx), expected)
    assert torch.equal(gather_points(channels_last, one_idx.T.expand(11, 2).T), expected)
    summed = scatter_points(expected.new_ones(1, 1, 1).expand(2, 8, 11), idx, 30)
    torch.testing.assert_close(summed, reference.scatter_points(torch.ones_like(expected), idx, 30))


@pytest.mark.parametrize(
    ("batch", "channels", "points", "samples"),
    [(0, 3, 5, 4), (2, 0, 5, 4), (2, 3, 5, 0), (2, 3, 0, 0), (0, 0, 0, 0)],
)
def test_empty_sizes(
    device: torch.device, batch: int, channels: int, points: int, samples: int
) -> None:
    features = torch.zeros(batch, channels, points, device=device, requires_grad=True)
    idx = torch.zeros(batch, samples, dtype=torch.int64, device=device)
    out = gather_points(features, idx)
    assert out.shape == (batch, channels, samples)
    out.sum().backward()
    assert features.grad is not None
    assert features.grad.shape == features.shape
    grouped = group_points(features, idx[..., None].expand(-1, -1, 2))
    assert grouped.shape == (batch, channels, samples, 2)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("index", [torch.int32, torch.int64])
def test_the_three_products_equal_the_reference(
    device: torch.device, dtype: torch.dtype, index: torch.dtype
) -> None:
    features, values = (
        make_features(device, 3, 5, 40).to(dtype),
        make_features(device, 3, 5, 90).to(dtype),
    )
    weight = torch.rand(3, 90, 3, generator=torch.Generator().manual_seed(2)).to(device, dtype)
    idx = make_idx(device, 40, 3, 90, 3).to(index)
    torch.testing.assert_close(
        interpolate(features, idx, weight), reference.interpolate(features, idx, weight)
    )
    torch.testing.assert_close(
        raw.interpolate_scatter(values, idx, weight, 45),
        reference.interpolate_scatter(values, idx, weight, 45),
    )
    torch.testing.assert_close(
        raw.interpolate_dot(values, features, idx), reference.interpolate_dot(values, features, idx)
    )


def test_a_weight_of_one_is_a_gather(device: torch.device) -> None:
    features, idx = make_features(device, 2, 6, 30), make_idx(device, 30, 2, 50, 1)
    weight = torch.ones(2, 50, 1, device=device)
    assert torch.equal(
        interpolate(features, idx, weight), reference.gather_points(features, idx[..., 0])
    )


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_interpolation_sums_halves_in_float32(device: torch.device, dtype: torch.dtype) -> None:
    """4096 ones sum to 4096; bfloat16 sums would stop at 256, float16 ones at 2048."""
    one = torch.ones(1, 1, 1, dtype=dtype, device=device)
    idx = torch.zeros(1, 1, 4096, dtype=torch.int32, device=device)
    many = one.expand(1, 1, 4096)
    assert interpolate(one, idx, many).item() == 4096
    assert raw.interpolate_scatter(one, idx, many, 1).item() == 4096
    channels = one.expand(1, 4096, 1)
    assert raw.interpolate_dot(channels, channels, idx[..., :1]).item() == 4096
    assert interpolate(one, idx, many).dtype == dtype


def test_weights_take_the_dtype_of_the_features(device: torch.device) -> None:
    features = make_features(device, 1, 2, 5).bfloat16()
    weight = torch.rand(1, 4, 3, device=device, requires_grad=True)
    out = interpolate(features, make_idx(device, 5, 1, 4, 3), weight)
    assert out.dtype == torch.bfloat16
    out.sum().backward()
    assert weight.grad is not None
    assert weight.grad.dtype == torch.float32


def test_a_large_sum_takes_every_thread_and_the_same_values(device: torch.device) -> None:
    features, values = make_features(device, 4, 32, 500), make_features(device, 4, 32, 6000)
    idx, weight = make_idx(device, 500, 4, 6000, 3), make_features(device, 4, 6000, 3)
    torch.testing.assert_close(
        interpolate(features, idx, weight), reference.interpolate(features, idx, weight)
    )
    torch.testing.assert_close(
        raw.interpolate_dot(values, features, idx), reference.interpolate_dot(values, features, idx)
    )


def test_interpolation_reads_strided_and_expanded_input(device: torch.device) -> None:
    features = make_features(device, 2, 30, 8).transpose(1, 2)
    idx, weight = (
        make_idx(device, 30, 1, 3, 9).transpose(1, 2).expand(2, 9, 3),
        make_features(device, 3),
    )
    actual = interpolate(features, idx, weight.expand(2, 9, 3))
    torch.testing.assert_close(actual, reference.interpolate(features, idx, weight.expand(2, 9, 3)))


@pytest.mark.parametrize(
    "sizes", [(0, 3, 4, 5, 2), (2, 0, 4, 5, 2), (2, 3, 4, 0, 2), (2, 3, 0, 5, 0)]
)
def test_interpolation_of_empty_sizes(device: torch.device, sizes: tuple[int, ...]) -> None:
    batch, channels, columns, points, corners = sizes
    features = torch.zeros(batch, channels, columns, device=device, requires_grad=True)
    weight = torch.zeros(batch, points, corners, device=device, requires_grad=True)
    idx = torch.zeros(batch, points, corners, dtype=torch.int64, device=device)
    out = interpolate(features, idx, weight)
    assert out.tolist() == torch.zeros(batch, channels, points).tolist()
    out.sum().backward()
    assert features.grad is not None
    assert weight.grad is not None
