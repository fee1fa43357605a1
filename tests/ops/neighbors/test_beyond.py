"""Neighbor searches beyond the points there are: k above N, shells, clouds without points."""

import pytest
import torch
from tests.support.tensors import assert_same, random
from torch import Tensor

from farpoint_ops import ball_query, count_points, knn, nearest_sample, reference

ops = torch.ops.farpoint


@pytest.mark.parametrize("k", [6, 9, 40, 200])
@pytest.mark.parametrize("n", [1, 5])
def test_knn_of_more_than_there_are(device: torch.device, n: int, k: int) -> None:
    xyz, queries = random(device, 2, n, 3), random(device, 2, 70, 3)
    queries[0, 3, 1] = torch.nan
    idx, squared = knn(xyz, queries, k)
    assert_same((idx, squared), reference.knn(xyz.cpu(), queries.cpu(), k))
    assert_same((idx[..., n:],), (idx[..., :1].expand(-1, -1, k - n),))
    assert (squared[..., n:] == torch.inf).all()


def test_knn_of_points_that_are_not_finite(device: torch.device) -> None:
    xyz, queries = random(device, 1, 4, 3), random(device, 1, 9, 3)
    xyz[0, [0, 2]] = torch.nan
    for k in (3, 6):
        assert_same(knn(xyz, queries, k), reference.knn(xyz.cpu(), queries.cpu(), k))
    xyz[:] = torch.inf
    assert_same(knn(xyz, queries, 6), reference.knn(xyz.cpu(), queries.cpu(), 6))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_knn_with_lengths_below_k(device: torch.device, dtype: torch.dtype) -> None:
    xyz, queries = random(device, 3, 50, 3).to(dtype), random(device, 3, 20, 3).to(dtype)
    lengths = [50, 2, 1]
    idx, squared = knn(xyz, queries, 4, lengths=lengths)
    for b, size in enumerate(lengths):
        expected = reference.knn(xyz[b : b + 1, :size].cpu(), queries[b : b + 1].cpu(), 4)
        assert_same((idx[b : b + 1],), expected[:1])
        torch.testing.assert_close(squared[b : b + 1].cpu(), expected[1])


def test_places_left_move_nothing(device: torch.device) -> None:
    """The gradient is that of the neighbors there are."""
    xyz, queries = random(device, 2, 3, 3).double(), random(device, 2, 5, 3).double()

    def gradients(k: int, lengths: list[int] | None) -> tuple[Tensor, ...]:
        leaves = [xyz.clone().requires_grad_(), queries.clone().requires_grad_()]
        squared = knn(*leaves, k, lengths=lengths)[1]
        return torch.autograd.grad(squared[..., :2].sqrt().sum(), leaves)

    for a, e in zip(gradients(7, None), gradients(2, None), strict=True):
        torch.testing.assert_close(a, e)
    leaves = [xyz.clone().requires_grad_(), queries.clone().requires_grad_()]
    ones = torch.ones(2, 5, 7, dtype=torch.float64, device=device)
    actual = torch.autograd.grad(knn(*leaves, 7)[1], leaves, ones)
    expected = torch.autograd.grad(knn(*leaves, 3)[1], leaves, ones[..., :3])
    for a, e in zip(actual, expected, strict=True):
        torch.testing.assert_close(a, e)


def test_knn_ragged_equals_the_reference(device: torch.device) -> None:
    xyz, queries = random(device, 60, 3), random(device, 31, 3)
    offsets, wanted = [0, 40, 40, 43, 60], [0, 9, 14, 31, 31]
    for k in (1, 5, 50):
        squared, idx = ops.knn_ragged(
            xyz, queries, k, torch.tensor(offsets).to(device), torch.tensor(wanted).to(device)
        )
        expected = reference.knn_ragged(xyz.cpu(), queries.cpu(), k, offsets, wanted)
        assert_same((idx, squared), expected)


@pytest.mark.parametrize("k", [1, 4, 50])
@pytest.mark.parametrize("scale", [0.1, 0.9])
def test_a_shell_equals_the_reference(cloud: Tensor, k: int, scale: float) -> None:
    spread = cloud[cloud.isfinite().all(-1)].std().item()
    radius = 0.7 * spread if 0 < spread < torch.inf else 0.7
    centers = torch.cat([cloud[:40], cloud[-40:] * 1.001 + 0.01])[None]
    actual = ball_query(cloud[None], centers, radius, k, min_radius=scale * radius)
    expected = reference.ball_query(
        cloud.cpu()[None], centers.cpu(), radius, k, min_radius=scale * radius
    )
    assert_same(actual, expected)


def test_the_edges_of_a_shell(device: torch.device) -> None:
    """The inner one is inside, the outer one is not, and the center itself always counts."""
    steps = torch.arange(6.0, device=device)
    line = torch.stack([steps, torch.zeros_like(steps), torch.zeros_like(steps)], 1)[None]
    idx, counts = ball_query(line, line[:, :1], 4.0, 6, min_radius=2.0)
    assert idx.tolist() == [[[0, 2, 3, 0, 0, 0]]]
    assert counts.tolist() == [[3]]
    between = line[:, :1] + torch.tensor([0.5, 0.0, 0.0], device=device)
    idx, counts = ball_query(line, between, 1.2, 6, min_radius=0.6)
    assert (idx[0, 0, 0].item(), counts.item()) == (0, 0)


@pytest.mark.parametrize(
    ("n", "m", "lengths", "sample_lengths"),
    [(6, 0, None, None), (0, 4, None, None), (0, 0, None, None), (6, 4, [6, 3], [0, 4])],
)
def test_clouds_without_points_or_samples(
    device: torch.device,
    n: int,
    m: int,
    lengths: list[int] | None,
    sample_lengths: list[int] | None,
) -> None:
    xyz, samples = random(device, 2, n, 3), random(device, 2, m, 3)
    actual = nearest_sample(xyz, samples, lengths=lengths, sample_lengths=sample_lengths)
    given = (None if v is None else torch.tensor(v) for v in (lengths, sample_lengths))
    assert_same(actual, reference.nearest_sample(xyz.cpu(), samples.cpu(), *given))
    counts = count_points(actual[0], m)
    assert int(counts.sum()) == int((actual[0] >= 0).sum())
