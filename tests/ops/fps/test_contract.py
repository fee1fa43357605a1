"""Exact farthest point sampling against the reference, the same on every device."""

from collections.abc import Callable

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support import reference
from tests.support.tensors import assert_same, random
from torch import Tensor

from farpoint_ops import farthest_point_sample, farthest_point_sample_ragged

CPU = torch.device("cpu")
both_dtypes = pytest.mark.parametrize("dtype", [torch.float32, torch.float64])


def check(cloud: Tensor, m: int, device: torch.device, start: int = 0) -> tuple[Tensor, Tensor]:
    """Rows and distances of one cloud (N, D), which are the reference's."""
    actual = farthest_point_sample(cloud[None].to(device), m, start=start, return_distances=True)
    expected = reference.furthest_point_sample(cloud[None].cpu(), m, torch.tensor([start]))
    assert_same(actual, expected)
    return actual


def check_whole(cloud: Tensor) -> None:
    """Every row once, finite ones first and the others in order; each sample is a prefix."""
    n = len(cloud)
    whole, distances = farthest_point_sample(cloud[None], n, return_distances=True)
    assert whole[0].sort().values.tolist() == list(range(n))
    finite = cloud.isfinite().all(-1)
    count = int(finite.sum())
    assert finite[whole[0, :count].long()].all()
    assert torch.equal(whole[0, count:], (~finite).nonzero()[:, 0].int())
    assert torch.equal(farthest_point_sample(cloud[None], n), whole)
    for m in {1, 2, n // 3 + 1, n - 1}:
        some = farthest_point_sample(cloud[None], m, return_distances=True)
        assert_same(some, (whole[:, :m], distances[:, :m]))


def test_equals_the_reference(cloud: Tensor, device: torch.device) -> None:
    rows, distances = check(cloud, min(len(cloud), 200), device)
    assert (rows.dtype, distances.dtype) == (torch.int32, torch.float32)
    check_whole(cloud)


def lattice(n: int, d: int) -> Tensor:
    """Ties everywhere, and duplicates where there are few dimensions."""
    return torch.randint(0, 3, (n, d), generator=torch.Generator().manual_seed(3)).double()


def holes(n: int, d: int) -> Tensor:
    cloud = random(CPU, n, d).double()
    cloud[::7, d - 1] = torch.nan
    cloud[3::11, 0] = torch.inf
    return cloud


CLOUDS: dict[str, Callable[[int, int], Tensor]] = {
    "random": lambda n, d: random(CPU, n, d).double(),
    "lattice": lattice,
    "equal": lambda n, d: torch.full((n, d), 0.3, dtype=torch.float64),
    "holes": holes,
    # Squares that overflow float32, and far from each other in float64.
    "huge": lambda n, d: random(CPU, n, d).double() * 1e20,
    # Map coordinates, which float32 merges.
    "far away": lambda n, d: random(CPU, n, d).double() + 5_403_550.0,
}


@pytest.mark.parametrize("name", CLOUDS)
@pytest.mark.parametrize(
    ("d", "dtype"),
    [*((d, torch.float32) for d in (1, 2, 4, 17, 70)), *((d, torch.float64) for d in (1, 3, 17))],
)
def test_other_spaces_equal_the_reference(
    device: torch.device, name: str, d: int, dtype: torch.dtype
) -> None:
    check(CLOUDS[name](101, d).to(dtype), 40, device, start=5)


@both_dtypes
@pytest.mark.parametrize("d", [1, 4, 31])
def test_every_point_of_other_spaces_comes_once(
    device: torch.device, d: int, dtype: torch.dtype
) -> None:
    cloud = holes(50, d).to(device, dtype)
    cloud[20:30] = cloud[:1]
    check_whole(cloud)


@both_dtypes
@pytest.mark.parametrize("n", [1, 2, 15, 16, 17, 31, 33])
def test_sizes_around_a_block(device: torch.device, n: int, dtype: torch.dtype) -> None:
    check(random(CPU, n, 6).to(dtype), n, device)


@both_dtypes
@pytest.mark.parametrize("index", [torch.int32, torch.int64])
@pytest.mark.parametrize("d", [2, 3, 12])
def test_each_cloud_has_its_own_length_start_and_radius(
    device: torch.device, d: int, index: torch.dtype, dtype: torch.dtype
) -> None:
    clouds = torch.stack([CLOUDS["random"](90, d), lattice(90, d)]).to(dtype)
    starts, lengths = torch.tensor([3, 20], dtype=index), torch.tensor([90, 41], dtype=index)
    expected = reference.furthest_point_sample(clouds, 41, starts, lengths)
    for padding in (torch.nan, torch.inf, 1e30):
        clouds[1, 41:] = padding
        given = clouds.to(device), 41
        options = {"start": starts.to(device), "lengths": lengths.to(device)}
        actual = farthest_point_sample(*given, **options, return_distances=True)
        assert_same(actual, expected)
    flat, bounds = clouds.flatten(0, 1), [0, 90, 180]
    radii = [float(actual[1][0, 9]), 0.0]
    ends = farthest_point_sample(
        clouds.to(device), 90, start=starts, radius=radii, return_distances=True
    )
    rows, distances, offsets = reference.furthest_point_sample_ragged(
        flat, bounds, [90, 90], [3, 20], radii
    )
    assert ends[2].tolist() == offsets.tolist()
    assert offsets[1] == 10
    assert_same(ends[:2], (torch.cat([rows[:10], rows[10:] - 90]), distances))


def test_distances_are_covering_radii(device: torch.device) -> None:
    cloud = random(device, 1, 600, 3)
    indices, distances = farthest_point_sample(cloud, 600, return_distances=True)
    samples = cloud[0, indices[0].long()]
    # A matrix product, the default on a GPU, leaves points at 6e-8 from themselves.
    exact = "donot_use_mm_for_euclid_dist"
    apart = torch.cdist(cloud[0].double(), samples.double(), compute_mode=exact)
    radii = apart.cummin(1).values.amax(0)
    torch.testing.assert_close(distances[0].double(), radii, rtol=1e-6, atol=0)
    assert distances[0, -1] == 0


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_halves_are_widened_before_any_arithmetic(device: torch.device, dtype: torch.dtype) -> None:
    """In float16 the square of these distances would be infinite."""
    cloud = (30_000 * random(device, 2, 500, 3)).clamp(-6e4, 6e4).to(dtype)
    narrow = farthest_point_sample(cloud, 300, return_distances=True)
    assert_same(narrow, farthest_point_sample(cloud.float(), 300, return_distances=True))
    assert narrow[1].isfinite().all()


@pytest.mark.parametrize("start", [3, [3, 3, 3], torch.tensor([3, 3, 3])])
def test_start_is_the_first_sample(device: torch.device, start: int | list[int] | Tensor) -> None:
    clouds = random(device, 3, 50, 3)
    indices = farthest_point_sample(clouds, 20, start=start, return_distances=True)
    assert_same(indices, reference.furthest_point_sample(clouds.cpu(), 20, torch.tensor([3] * 3)))


def test_a_start_that_is_not_finite_falls_back_to_the_first_finite_row(
    device: torch.device,
) -> None:
    cloud = torch.arange(12.0, device=device).reshape(1, 4, 3)
    cloud[0, 0, 0] = torch.nan
    cloud[0, 2, 1] = torch.inf
    for start in (0, 2):
        assert farthest_point_sample(cloud, 4, start=start).tolist() == [[1, 3, 0, 2]]
    cloud[:] = torch.nan
    indices, distances = farthest_point_sample(cloud, 4, start=2, return_distances=True)
    assert indices.tolist() == [[2, 0, 1, 3]]
    assert distances.tolist() == [[0, 0, 0, 0]]


def test_strided_input_is_read_as_it_is(device: torch.device) -> None:
    rows = random(device, 2, 200, 4)
    expected = farthest_point_sample(rows[..., :3].contiguous(), 50)
    assert torch.equal(farthest_point_sample(rows[..., :3], 50), expected)
    flipped = rows[..., :3].transpose(1, 2).contiguous().transpose(1, 2)
    assert torch.equal(farthest_point_sample(flipped, 50), expected)
    flat = farthest_point_sample_ragged(rows.flatten(0, 1)[:, :3], [0, 200, 400], 50)
    assert torch.equal(flat.view(2, 50) - torch.tensor([[0], [200]], device=device), expected)


def test_empty_batches_have_no_samples(device: torch.device) -> None:
    none = torch.empty(0, 8, 3, device=device)
    for indices, distances in (
        farthest_point_sample(none, 5, return_distances=True),
        farthest_point_sample_ragged(none[:, 0], [0], 4, return_distances=True),
    ):
        assert indices.numel() == distances.numel() == 0


coordinate = st.sampled_from([0.0, -0.0, 1.0, 2.0, -1.0, 0.1, 1e-30, 3e38, np.nan, np.inf, -np.inf])


@settings(max_examples=60, deadline=None)
@given(
    rows=st.lists(st.tuples(coordinate, coordinate, coordinate), min_size=1, max_size=20),
    start=st.integers(0, 19),
)
def test_any_small_cloud_equals_the_reference(
    rows: list[tuple[float, float, float]], start: int
) -> None:
    check(torch.tensor(rows), len(rows), CPU, start % len(rows))


OFFSETS = [0, 1, 71, 74, 674, 714]


@pytest.fixture
def flat(device: torch.device) -> Tensor:
    return random(device, OFFSETS[-1], 3)


@both_dtypes
@pytest.mark.parametrize("d", [1, 3, 20])
def test_a_ragged_batch_equals_the_reference(
    device: torch.device, d: int, dtype: torch.dtype
) -> None:
    cloud, counts, start = holes(714, d).to(dtype), [1, 33, 3, 60, 40], [0, 69, 1, 7, 0]
    actual = farthest_point_sample_ragged(
        cloud.to(device), OFFSETS, counts, start=start, return_distances=True
    )
    assert_same(actual, reference.furthest_point_sample_ragged(cloud, OFFSETS, counts, start))


def test_offsets_samples_and_start_may_be_tensors_anywhere(flat: Tensor) -> None:
    expected = farthest_point_sample_ragged(flat, OFFSETS, [1, 2, 3, 4, 5], start=[0, 1, 2, 3, 4])
    for where in ("cpu", flat.device):
        actual = farthest_point_sample_ragged(
            flat,
            torch.tensor(OFFSETS, device=where),
            torch.tensor([1, 2, 3, 4, 5], device=where),
            start=torch.arange(5, dtype=torch.int32, device=where),
        )
        assert torch.equal(actual, expected)
    one_number = farthest_point_sample_ragged(flat, [0, 71, 74, 714], 3, start=2)
    assert one_number.tolist()[::3] == [2, 73, 76]


STARTS = [50, 7, 50, 1]  # sizes of the clouds that starts are drawn in


def generator() -> torch.Generator:
    return torch.Generator().manual_seed(5)


def test_random_starts_are_drawn_from_the_generator(device: torch.device) -> None:
    """The same on every device, and for padded and ragged batches."""
    clouds, drawn = random(device, 4, 50, 3), reference.random_starts([50] * 4, generator())
    rows = farthest_point_sample(clouds, 20, start="random", generator=generator())
    assert torch.equal(rows, farthest_point_sample(clouds, 20, start=drawn))
    drawn = reference.random_starts(STARTS, generator())
    rows = farthest_point_sample(clouds, 1, start="random", generator=generator(), lengths=STARTS)
    assert rows[:, 0].tolist() == drawn
    bounds = torch.tensor([0, *STARTS]).cumsum(0)
    flat = clouds.flatten(0, 1)[: bounds[-1]]
    rows = farthest_point_sample_ragged(flat, bounds, 1, start="random", generator=generator())
    assert (rows.cpu() - bounds[:-1]).tolist() == drawn


def test_without_a_generator_the_default_one_is_drawn_from(device: torch.device) -> None:
    clouds = random(device, 4, 50, 3)
    torch.manual_seed(11)
    first, second = (farthest_point_sample(clouds, 3, start="random") for _ in range(2))
    torch.manual_seed(11)
    assert torch.equal(farthest_point_sample(clouds, 3, start="random"), first)
    assert not torch.equal(first, second)
