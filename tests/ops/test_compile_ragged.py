"""torch.compile of ragged batches with offsets in tensors: no graph break, no value read."""

from collections.abc import Iterator

import pytest
import torch
from torch import Tensor

from farpoint_ops import farthest_point_sample, farthest_point_sample_ragged
from farpoint_ops.compat import pointops


@pytest.fixture(autouse=True)
def fresh() -> None:
    torch._dynamo.reset()


def batches(device: torch.device) -> Iterator[tuple[Tensor, Tensor, Tensor]]:
    """Flat clouds, offsets and starts of three batches whose sizes all differ."""
    generator = torch.Generator().manual_seed(0)
    for sizes in ([12, 28, 7, 9, 8], [30, 9, 21, 8, 7, 11], [8, 9, 10, 60]):
        offsets = torch.tensor([0, *sizes]).cumsum(0)
        xyz = torch.randn(int(offsets[-1]), 3, generator=generator)
        yield xyz.to(device), offsets.to(device), torch.arange(len(sizes)).to(device)


def test_tensor_offsets(device: torch.device) -> None:
    def sample(xyz: Tensor, offsets: Tensor, start: Tensor) -> tuple[Tensor, ...]:
        rows, radii = farthest_point_sample_ragged(xyz, offsets, 5, return_distances=True)
        return rows, radii, farthest_point_sample_ragged(xyz, offsets, 7, start=start)

    from torch._dynamo.testing import CompileCounterWithBackend  # seconds to import

    counter = CompileCounterWithBackend("aot_eager")
    compiled = torch.compile(sample, fullgraph=True, dynamic=True, backend=counter)
    for arguments in batches(device):
        for actual, expected in zip(compiled(*arguments), sample(*arguments), strict=True):
            assert torch.equal(actual, expected)
    assert counter.frame_count == 1


def test_tensor_offsets_and_a_list_of_samples(device: torch.device) -> None:
    def sample(xyz: Tensor, offsets: Tensor) -> Tensor:
        return farthest_point_sample_ragged(xyz, offsets, [3, 4, 1, 7, 5], start=2)

    xyz, offsets, _ = next(batches(device))
    compiled = torch.compile(sample, fullgraph=True, backend="aot_eager")
    assert torch.equal(compiled(xyz, offsets), sample(xyz, offsets))


def test_samples_in_a_tensor_where_scalars_are_captured(device: torch.device) -> None:
    def sample(xyz: Tensor, offset: Tensor, new_offset: Tensor) -> Tensor:
        return pointops.furthestsampling(xyz, offset, new_offset)

    compiled = torch.compile(sample, fullgraph=True, dynamic=True, backend="aot_eager")
    with torch._dynamo.config.patch(capture_scalar_outputs=True):
        for xyz, offsets, start in batches(device):
            arguments = xyz, offsets[1:].int(), (start + 2).cumsum(0).int()
            assert torch.equal(compiled(*arguments), sample(*arguments))


def test_pointops_knn_query(device: torch.device) -> None:
    def search(xyz: Tensor, offset: Tensor, new_offset: Tensor) -> tuple[Tensor, ...]:
        near = pointops.knn_query(11, xyz, offset)
        queries = xyz[: xyz.size(0) // 2] * 0.9
        return *near, *pointops.knn_query(3, xyz, offset, queries, new_offset)

    from torch._dynamo.testing import CompileCounterWithBackend  # seconds to import

    counter = CompileCounterWithBackend("aot_eager")
    compiled = torch.compile(search, fullgraph=True, dynamic=True, backend=counter)
    frames = []
    for xyz, offsets, start in batches(device):
        new_offset = (start + 1).clamp(max=3)
        new_offset[-1] = len(xyz) // 2
        arguments = xyz, offsets[1:].int(), new_offset
        for actual, expected in zip(compiled(*arguments), search(*arguments), strict=True):
            assert torch.equal(actual, expected)
        frames.append(counter.frame_count)
    assert frames[0] == frames[-1]


def test_wrong_tensors_are_errors_of_the_op() -> None:
    xyz, offsets, start = next(batches(torch.device("cpu")))
    compiled = torch.compile(farthest_point_sample_ragged, fullgraph=True, backend="aot_eager")
    with pytest.raises(
        ValueError, match="num_samples: expected 1 to 12, the points of cloud 0, got 13"
    ):
        compiled(xyz, offsets, 13)
    with pytest.raises(ValueError, match="offsets: expected offsets from 0 to 64, got 0 to 65"):
        compiled(xyz, torch.tensor([0, 12, 65]), 3)
    with pytest.raises(IndexError, match="start: expected 0 <= start < 12 for cloud 0, got 20"):
        compiled(xyz, offsets, 3, start=start + 20)


@pytest.mark.parametrize("nonfinite", ["reject", "ignore"])
def test_points_that_are_not_finite_are_asserted_against(nonfinite: str) -> None:
    def sample(xyz: Tensor) -> Tensor:
        return farthest_point_sample(xyz, 4, nonfinite=nonfinite)  # type: ignore[call-overload]

    compiled = torch.compile(sample, fullgraph=True, backend="aot_eager")
    cloud = torch.rand(1, 6, 3)
    assert torch.equal(compiled(cloud), sample(cloud))
    cloud[0, 3:] = torch.nan
    with pytest.raises(RuntimeError, match="see nonfinite"):
        compiled(cloud)
