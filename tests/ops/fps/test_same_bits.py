"""Every instruction set, tree depth and number of threads samples the same bits on the CPU."""

import pytest
import torch
from tests.support import reference
from tests.support.clouds import street_scan
from tests.support.tensors import assert_same
from torch import Tensor

from farpoint_ops import farthest_point_sample

THREADS = (2, 3, 7)
cpu_simd = torch.ops.farpoint._cpu_simd
pytestmark = pytest.mark.usefixtures("restored_threads")


def sampled(cloud: Tensor, m: int, threads: int, **options: object) -> tuple[Tensor, ...]:
    torch.set_num_threads(threads)
    return farthest_point_sample(cloud, m, start=7, return_distances=True, **options)


def test_equals_the_reference(large: Tensor) -> None:
    m = min(150, 3_000_000 // large.size(1))
    assert_same(
        sampled(large, m, 1), reference.furthest_point_sample(large, m, start=torch.tensor([7]))
    )


@pytest.mark.usefixtures("level")
def test_every_instruction_set(large: Tensor) -> None:
    limited = sampled(large, 1500, 1)
    cpu_simd("")
    assert_same(limited, sampled(large, 1500, 1))


@pytest.mark.parametrize("m", [600, 14_000])
def test_any_number_of_threads(large: Tensor, m: int) -> None:
    m = min(m, large.size(1))
    expected = sampled(large, m, 1)
    for threads in THREADS:
        assert_same(sampled(large, m, threads), expected)
        assert torch.equal(farthest_point_sample(large, m, start=7), expected[0])


@pytest.mark.usefixtures("level")
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_other_spaces(dtype: torch.dtype) -> None:
    generator = torch.Generator().manual_seed(3)
    cloud = torch.randn(1, 18_001, 24, generator=generator, dtype=torch.float64).to(dtype)
    cloud[:, 9000:] = cloud[:, 9000:].round()
    found = [sampled(cloud, 60, threads) for threads in (1, 2, 4)]
    cpu_simd("")
    for each in found:
        assert_same(each, sampled(cloud, 60, 1))


@pytest.mark.usefixtures("level")
@pytest.mark.parametrize("threads", [1, *THREADS])
def test_a_radius_ends_it_at_the_same_sample(threads: int) -> None:
    cloud = torch.from_numpy(street_scan()[None, :, :3].copy())
    m = cloud.size(1) // 2
    found = sampled(cloud, m, threads)
    for place in (10, 500, m - 2):
        radius = float(found[1][0, place])
        count = int((found[1][0] <= radius).int().argmax()) + 1
        ended = sampled(cloud, m, threads, radius=radius)
        assert ended[2].tolist() == [0, count]
        assert_same(ended[:2], (found[0][0, :count], found[1][0, :count]))


@pytest.mark.parametrize("threads", THREADS)
def test_all_points_are_sampled_once(threads: int) -> None:
    cloud = torch.rand(1, 30_000, 3, generator=torch.Generator().manual_seed(6))
    found = sampled(cloud, 30_000, threads)
    assert_same(found, sampled(cloud, 30_000, 1))
    assert torch.equal(found[0].sort().values[0], torch.arange(30_000, dtype=torch.int32))


@pytest.mark.usefixtures("level")
@pytest.mark.parametrize("n", [1, 2, 15, 16, 17, 31, 33, 511, 513, 1025])
def test_sizes_around_the_width_of_a_leaf(n: int) -> None:
    cloud = torch.rand(1, n, 3, generator=torch.Generator().manual_seed(n))
    actual = farthest_point_sample(cloud, n, return_distances=True)
    assert_same(actual, reference.furthest_point_sample(cloud, n))


def test_an_unknown_level_is_named() -> None:
    with pytest.raises(ValueError, match="expected plain, avx2 or avx512, got sse9"):
        cpu_simd("sse9")
