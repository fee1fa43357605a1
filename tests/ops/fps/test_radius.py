"""Sampling to a radius: the shortest prefix of a sample that covers the cloud to it."""

import pytest
import torch
from tests.support.clouds import street_scan
from torch import Tensor

from farpoint_ops import (
    farthest_point_sample,
    farthest_point_sample_ragged,
    poisson_disk_sample,
    reference,
)


def radii_to_try(cloud: Tensor) -> list[float]:
    """Covering radii that occur, numbers just below them, none at all and enough for one point."""
    _, distances = farthest_point_sample(cloud[None], len(cloud), return_distances=True)
    occurring = distances[0, [0, len(cloud) // 50, len(cloud) // 7, len(cloud) // 2]].cpu()
    below = occurring.nextafter(torch.tensor(0.0))
    return [0.0, *occurring.tolist(), *below.tolist(), torch.inf]


def test_equals_the_reference(cloud: Tensor) -> None:
    n = min(len(cloud), 300)
    part = cloud[:n].contiguous()
    for radius in radii_to_try(part):
        actual = farthest_point_sample(part[None], n, radius=radius, return_distances=True)
        expected = reference.furthest_point_sample_ragged(part.cpu(), [0, n], [n], [0], [radius])
        assert [t.dtype for t in actual] == [torch.int32, torch.float32, torch.int64]
        assert all(torch.equal(a.cpu(), e) for a, e in zip(actual, expected, strict=True))


def test_is_the_prefix_that_reaches_it_first(cloud: Tensor) -> None:
    """Of the sample of every point, on every path through the kernels."""
    whole, distances = farthest_point_sample(cloud[None], len(cloud), return_distances=True)
    for radius in radii_to_try(cloud):
        rows, offsets = farthest_point_sample(cloud[None], len(cloud), radius=radius)
        count = int((distances[0] <= radius).int().argmax()) + 1
        assert offsets.tolist() == [0, count]
        assert torch.equal(rows, whole[0, :count])
        for m in (1, max(1, count - 1), count):
            fewer, _ = farthest_point_sample(cloud[None], m, radius=radius)
            assert torch.equal(fewer, whole[0, : min(m, count)])


def test_a_real_scan_on_any_number_of_threads(device: torch.device) -> None:
    cloud = torch.from_numpy(street_scan()[None, :, :3].copy()).to(device)
    m = cloud.size(1) // 2
    whole, distances = farthest_point_sample(cloud, m, return_distances=True)
    before = torch.get_num_threads()
    try:
        for threads in (1, 2, 5):
            torch.set_num_threads(threads)
            for place in (10, 500, m - 2):
                radius = float(distances[0, place])
                rows, covered, offsets = farthest_point_sample(
                    cloud, m, radius=radius, return_distances=True
                )
                count = int((distances[0] <= radius).int().argmax()) + 1
                assert offsets.tolist() == [0, count]
                assert torch.equal(rows, whole[0, :count])
                assert torch.equal(covered, distances[0, :count])
    finally:
        torch.set_num_threads(before)


@pytest.mark.parametrize("limit", ["plain", "avx2", "avx512"])
def test_any_instruction_set(limit: str) -> None:
    cloud = torch.rand(1, 20_000, 3, generator=torch.Generator().manual_seed(3))
    expected = farthest_point_sample(cloud, 9000, radius=0.1, return_distances=True)
    assert 100 < len(expected[0]) < 9000
    torch.ops.farpoint._cpu_simd(limit)
    try:
        actual = farthest_point_sample(cloud, 9000, radius=0.1, return_distances=True)
    finally:
        torch.ops.farpoint._cpu_simd("")
    assert all(map(torch.equal, actual, expected))


@pytest.mark.parametrize("radii", [[0.4, 0.0, 10.0], torch.tensor([0.4, 0.0, 10.0]).double()])
def test_one_for_each_cloud(device: torch.device, radii: list[float] | Tensor) -> None:
    clouds = torch.randn(3, 60, 3, generator=torch.Generator().manual_seed(4)).to(device)
    lengths, start = [60, 31, 50], [3, 0, 5]
    rows, distances, offsets = farthest_point_sample(
        clouds, 30, radius=radii, lengths=lengths, start=start, return_distances=True
    )
    for b, radius in enumerate([0.4, 0.0, 10.0]):
        size = lengths[b]
        expected = reference.furthest_point_sample_ragged(
            clouds[b, :size].cpu(), [0, size], [30], [start[b]], [radius]
        )
        place = slice(int(offsets[b]), int(offsets[b + 1]))
        assert torch.equal(rows[place].cpu(), expected[0])
        assert torch.equal(distances[place].cpu(), expected[1])
    assert offsets[3] == len(rows)


def test_ragged(device: torch.device) -> None:
    xyz = torch.randn(90, 3, generator=torch.Generator().manual_seed(5)).to(device)
    bounds, counts, start, radii = [0, 40, 41, 90], [20, 1, 49], [7, 0, 2], [0.9, 0.0, 0.6]
    actual = farthest_point_sample_ragged(
        xyz, bounds, counts, start=start, radius=radii, return_distances=True
    )
    expected = reference.furthest_point_sample_ragged(xyz.cpu(), bounds, counts, start, radii)
    assert all(torch.equal(a.cpu(), e) for a, e in zip(actual, expected, strict=True))
    assert expected[2].tolist()[-1] < sum(counts)
    rows, offsets = farthest_point_sample_ragged(xyz, bounds, counts, start=start, radius=radii)
    assert torch.equal(rows, actual[0])
    assert torch.equal(offsets, actual[2])


def test_without_a_number_the_radius_alone_ends_it(device: torch.device) -> None:
    clouds = torch.rand(3, 70, 3, generator=torch.Generator().manual_seed(8)).to(device)
    actual = farthest_point_sample(clouds, radius=0.2, start=4, return_distances=True)
    expected = farthest_point_sample(clouds, 70, radius=0.2, start=4, return_distances=True)
    assert all(torch.equal(a, e) for a, e in zip(actual, expected, strict=True))
    lengths, radii = [70, 5, 33], [0.2, 0.0, 0.3]
    ragged = farthest_point_sample(
        clouds, radius=radii, start=4, lengths=lengths, return_distances=True
    )
    alone = [
        farthest_point_sample(clouds[b : b + 1, :n], n, radius=r, start=4, return_distances=True)
        for b, (n, r) in enumerate(zip(lengths, radii, strict=True))
    ]
    assert torch.equal(ragged[0], torch.cat([rows for rows, _, _ in alone]))
    assert torch.equal(ragged[1], torch.cat([distances for _, distances, _ in alone]))
    assert ragged[2].diff().tolist() == [len(rows) for rows, _, _ in alone]


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


def test_points_that_are_not_finite_are_never_in_it(device: torch.device) -> None:
    cloud = torch.rand(1, 400, 3, generator=torch.Generator().manual_seed(6)).to(device)
    cloud[0, ::7, 1] = torch.nan
    rows, _ = farthest_point_sample(cloud, 400, radius=0.0)
    assert cloud[0, rows.long()].isfinite().all()
    assert len(rows) == int(cloud.isfinite().all(-1).sum())


def test_flags_of_a_server_and_a_radius() -> None:
    """A cloud of its own radius each, the others given none."""
    xyz = torch.rand(80, 3, generator=torch.Generator().manual_seed(7))
    offsets, slots = torch.tensor([0, 30, 80]), torch.tensor([0, 30, 80])
    flags, radii = torch.zeros(2, dtype=torch.int32), torch.tensor([0.3, 0.0])
    rows, distances = torch.ops.farpoint._furthest_point_sample_cancellable(
        xyz, offsets, slots, None, 80, flags, True, radii
    )
    expected = reference.furthest_point_sample_ragged(xyz, [0, 30, 80], [30, 50], [0, 0], [0.3, 0])
    assert torch.equal(rows[rows >= 0], expected[0])
    assert torch.equal(distances[rows >= 0], expected[1])
    assert (distances[rows < 0] == 0).all()
