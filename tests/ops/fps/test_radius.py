"""Sampling to a radius: the shortest prefix of a sample that covers the cloud to it."""

import pytest
import torch
from tests.support import reference
from tests.support.tensors import assert_same
from torch import Tensor

from farpoint_ops import farthest_point_sample, farthest_point_sample_ragged, poisson_disk_sample


def radii_to_try(cloud: Tensor) -> list[float]:
    """Covering radii that occur, numbers just below them, none at all and enough for one point."""
    _, distances = farthest_point_sample(cloud[None], len(cloud), return_distances=True)
    occurring = distances[0, [0, len(cloud) // 50, len(cloud) // 7, len(cloud) // 2]].cpu()
    below = occurring.nextafter(torch.tensor(0.0))
    return [0.0, *occurring.tolist(), *below.tolist(), torch.inf]


def test_is_the_prefix_that_reaches_it_first(cloud: Tensor) -> None:
    """Of the sample of every point, on every path through the kernels."""
    whole, distances = farthest_point_sample(cloud[None], len(cloud), return_distances=True)
    for radius in radii_to_try(cloud):
        count = int((distances[0] <= radius).int().argmax()) + 1
        actual = farthest_point_sample(
            cloud[None], len(cloud), radius=radius, return_distances=True
        )
        bounds = torch.tensor([0, count])
        assert_same(actual, (whole[0, :count], distances[0, :count], bounds))
        for m in (1, max(1, count - 1), count):
            fewer, _ = farthest_point_sample(cloud[None], m, radius=radius)
            assert torch.equal(fewer, whole[0, : min(m, count)])


def test_ragged(device: torch.device) -> None:
    xyz = torch.randn(90, 3, generator=torch.Generator().manual_seed(5)).to(device)
    bounds, counts, start, radii = [0, 40, 41, 90], [20, 1, 49], [7, 0, 2], [0.9, 0.0, 0.6]
    actual = farthest_point_sample_ragged(
        xyz, bounds, counts, start=start, radius=radii, return_distances=True
    )
    expected = reference.furthest_point_sample_ragged(xyz.cpu(), bounds, counts, start, radii)
    assert_same(actual, expected)
    assert expected[2].tolist()[-1] < sum(counts)
    rows, offsets = farthest_point_sample_ragged(xyz, bounds, counts, start=start, radius=radii)
    assert torch.equal(rows, actual[0])
    assert torch.equal(offsets, actual[2])


def test_without_a_number_the_radius_alone_ends_it(device: torch.device) -> None:
    clouds = torch.rand(3, 70, 3, generator=torch.Generator().manual_seed(8)).to(device)
    actual = farthest_point_sample(clouds, radius=0.2, start=4, return_distances=True)
    expected = farthest_point_sample(clouds, 70, radius=0.2, start=4, return_distances=True)
    assert_same(actual, expected)
    lengths, radii = [70, 5, 33], [0.2, 0.0, 0.3]
    alone = [
        farthest_point_sample(clouds[b : b + 1, :n], n, radius=r, start=4, return_distances=True)
        for b, (n, r) in enumerate(zip(lengths, radii, strict=True))
    ]
    rows, distances = (torch.cat([each[i] for each in alone]) for i in range(2))
    offsets = torch.tensor([0, *(len(each[0]) for each in alone)]).cumsum(0)
    for each in (radii, torch.tensor(radii).double()):
        ragged = farthest_point_sample(
            clouds, radius=each, start=4, lengths=lengths, return_distances=True
        )
        assert_same(ragged, (rows, distances, offsets))


def test_padded_samples_work_under_vmap_compile_and_export(device: torch.device) -> None:
    """They are the ragged ones, -1 and 0 behind, and how many there are."""
    clouds = torch.rand(3, 2, 50, 3, generator=torch.Generator().manual_seed(9)).to(device)

    class Padded(torch.nn.Module):
        def forward(self, batch: Tensor) -> tuple[Tensor, ...]:
            return (
                *farthest_point_sample(batch, radius=0.4, max_samples=40, return_distances=True),
                *poisson_disk_sample(batch, 0.4, max_samples=5),
            )

    padded = Padded()
    rows, distances, counts, few, five = padded(clouds[0])
    ragged = farthest_point_sample(clouds[0], 40, radius=0.4, return_distances=True)
    assert torch.equal(rows[rows >= 0], ragged[0])
    assert torch.equal(distances[rows >= 0], ragged[1])
    assert not distances[rows < 0].any()
    assert torch.equal(counts, ragged[2].diff())
    assert torch.equal(few, rows[:, :5])
    assert five.tolist() == [5, 5]
    batch = torch.export.Dim.DYNAMIC
    exported = torch.export.export(padded, (clouds[0],), dynamic_shapes=({0: batch, 1: batch},))
    compiled = torch.compile(padded, fullgraph=True, dynamic=True, backend="aot_eager")
    mapped = torch.vmap(padded)(clouds)
    for v, cloud in enumerate(clouds):
        for answer in (tuple(t[v] for t in mapped), exported.module()(cloud), compiled(cloud)):
            assert all(map(torch.equal, answer, padded(cloud)))


def test_vmap_to_a_radius_names_max_samples() -> None:
    clouds = torch.rand(2, 1, 9, 3)
    for sample in (
        lambda c: farthest_point_sample(c, radius=0.1)[0],
        lambda c: farthest_point_sample_ragged(c[0], [0, 9], 9, radius=0.1)[0],
        lambda c: poisson_disk_sample(c, 0.1)[0],
    ):
        with pytest.raises(RuntimeError, match=r"radius: torch\.vmap cannot .* give max_samples"):
            torch.vmap(sample)(clouds)


def test_a_cloud_with_nothing_finite_is_one_sample(device: torch.device) -> None:
    cloud = torch.full((1, 5, 3), torch.nan, device=device)
    rows, distances, offsets = farthest_point_sample(
        cloud, 5, start=2, radius=0.0, return_distances=True
    )
    assert (rows.tolist(), distances.tolist(), offsets.tolist()) == ([2], [0.0], [0, 1])
