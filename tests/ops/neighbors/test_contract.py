"""knn, ball_query and nearest_sample: exact results, the same on every device."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support.tensors import assert_same, random
from torch import Tensor

from farpoint_ops import ball_query, count_points, knn, nearest_sample, reference


def queries_near(cloud: Tensor) -> Tensor:
    """Some of the points themselves, others beside them, and one that is not finite."""
    beside = cloud[-60:] * 1.001 + 0.01
    return torch.cat([cloud[:60], beside, cloud[:1] + torch.inf])[None]


@pytest.mark.parametrize("k", [1, 2, 9, 40])
def test_knn_equals_the_reference(cloud: Tensor, k: int) -> None:
    k = min(k, len(cloud))
    actual = knn(cloud[None], queries_near(cloud), k)
    assert actual[0].dtype == torch.int32
    assert actual[1].dtype == torch.float32
    assert_same(actual, reference.knn(cloud.cpu()[None], queries_near(cloud).cpu(), k))


def test_knn_of_every_point_is_an_order_of_all(cloud: Tensor) -> None:
    queries = queries_near(cloud)[:, :20]
    idx, squared = knn(cloud[None], queries, len(cloud))
    expected = torch.arange(len(cloud), device=cloud.device).expand_as(idx)
    assert torch.equal(idx.sort(-1).values, expected.int())
    assert (squared.diff(dim=-1).nan_to_num(0) >= 0).all()
    finite = cloud.isfinite().all(-1)[idx[0].long()]
    assert (finite.int().diff(dim=-1) <= 0).all()


@pytest.mark.parametrize("k", [1, 4, 50])
@pytest.mark.parametrize("scale", [0.05, 0.5, 5.0])
def test_ball_query_equals_the_reference(cloud: Tensor, k: int, scale: float) -> None:
    spread = cloud[cloud.isfinite().all(-1)].std().item()
    radius = spread * scale if 0 < spread < torch.inf else scale
    actual = ball_query(cloud[None], queries_near(cloud), radius, k)
    expected = reference.ball_query(cloud.cpu()[None], queries_near(cloud).cpu(), radius, k)
    assert_same(actual, expected)


def test_nearest_sample_equals_the_reference(cloud: Tensor) -> None:
    samples = queries_near(cloud)
    actual = nearest_sample(cloud[None], samples)
    assert_same(actual, reference.nearest_sample(cloud.cpu()[None], samples.cpu()))
    counts = count_points(actual[0], samples.size(1))
    assert_same((counts,), (reference.count_points(actual[0].cpu(), samples.size(1)),))
    assert counts.sum() == (actual[0] >= 0).sum()


def test_neighbors_are_the_nearest(device: torch.device) -> None:
    cloud, queries = random(device, 2, 500, 3), random(device, 2, 30, 3) + 0.1
    apart = torch.cdist(queries.double(), cloud.double())
    idx, squared = knn(cloud, queries, 7)
    torch.testing.assert_close(squared.double().sqrt(), apart.sort(-1).values[..., :7])
    assert torch.equal(apart.gather(2, idx.long()).sort(-1).values, apart.sort(-1).values[..., :7])


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_halves_are_widened_before_any_arithmetic(device: torch.device, dtype: torch.dtype) -> None:
    """In float16 the square of these distances would be infinite."""
    cloud = (20_000 * random(device, 2, 300, 3)).clamp(-6e4, 6e4).to(dtype)
    wide = cloud.float()
    assert_same(knn(cloud, cloud, 4), knn(wide, wide, 4))
    assert_same(ball_query(cloud, cloud, 9e3, 4), ball_query(wide, wide, 9e3, 4))
    assert_same(nearest_sample(cloud, cloud[:, :9]), nearest_sample(wide, wide[:, :9]))
    assert knn(cloud, cloud, 4)[1].isfinite().all()


def test_float64_neighbors(device: torch.device) -> None:
    cloud = random(device, 2, 200, 3).double() + 1e7
    cloud[1, 3] = torch.nan
    idx, squared = knn(cloud, cloud[:, :20], 5)
    expected = reference.knn(cloud.cpu(), cloud[:, :20].cpu(), 5)
    assert torch.equal(idx.cpu(), expected[0])
    torch.testing.assert_close(squared.cpu(), expected[1])
    all_rows = knn(cloud, cloud[:, :4], 200)
    assert torch.equal(all_rows[0].cpu(), reference.knn(cloud.cpu(), cloud[:, :4].cpu(), 200)[0])


@pytest.mark.parametrize("scale", [1.0, 1e25])
def test_float64_ball_query_and_nearest_sample(cloud: Tensor, scale: float) -> None:
    """Far from the origin, where float32 merges the points; and where its squares overflow."""
    few = cloud[:250]
    points = (few.double() * scale + 1e7 * scale)[None]
    others = (queries_near(few).double() * scale + 1e7 * scale)[:, ::4]
    for radius, inner, k in ((0.5, 0.0, 5), (1.5, 0.7, 40), (1e200, 0.0, 3)):
        shell = radius * scale, k, None, inner * scale
        actual = ball_query(points, others, *shell[:2], min_radius=shell[3])
        assert_same(actual, reference.ball_query(points.cpu(), others.cpu(), *shell))
    actual = nearest_sample(points, others)
    assert actual[1].dtype == torch.float64
    assert_same(actual, reference.nearest_sample(points.cpu(), others.cpu()))


def test_float64_lengths_are_kept(device: torch.device) -> None:
    points, others = random(device, 2, 70, 3).double(), random(device, 2, 9, 3).double()
    sizes, few = torch.tensor([70, 4], device=device), torch.tensor([0, 9], device=device)
    assert_same(
        ball_query(points, others, 0.7, 10, lengths=sizes),
        reference.ball_query(points.cpu(), others.cpu(), 0.7, 10, sizes),
    )
    assert_same(
        nearest_sample(points, others, lengths=sizes, sample_lengths=few),
        reference.nearest_sample(points.cpu(), others.cpu(), sizes, few),
    )
    assert nearest_sample(points, others[:, :0])[0].eq(-1).all()


@pytest.mark.parametrize("dtype", [torch.int32, torch.int64])
def test_padding_is_never_read(device: torch.device, dtype: torch.dtype) -> None:
    cloud, others = random(device, 3, 80, 3), random(device, 3, 30, 3)
    lengths = torch.tensor([80, 10, 33], dtype=dtype, device=device)
    some = torch.tensor([30, 1, 7], dtype=dtype, device=device)
    for padding in (0.0, torch.nan, 1e30):
        for b in range(3):
            cloud[b, lengths[b] :] = padding
        assert_same(
            knn(cloud, others, 10, lengths=lengths),
            reference.knn(cloud.cpu(), others.cpu(), 10, lengths),
        )
        assert_same(
            ball_query(cloud, others, 0.7, 10, lengths=lengths.tolist()),
            reference.ball_query(cloud.cpu(), others.cpu(), 0.7, 10, lengths),
        )
        assert_same(
            nearest_sample(cloud, others, lengths=lengths, sample_lengths=some),
            reference.nearest_sample(cloud.cpu(), others.cpu(), lengths, some),
        )


def test_an_empty_ball_and_the_places_left(device: torch.device) -> None:
    cloud = torch.tensor([[[5.0, 0, 0], [1, 0, 0], [2, 0, 0], [9, 0, 0]]], device=device)
    centers = torch.tensor([[[2.0, 0, 0], [20, 0, 0]]], device=device)
    idx, counts = ball_query(cloud, centers, 1.5, 4)
    assert idx.tolist() == [[[1, 2, 1, 1], [0, 0, 0, 0]]]
    assert counts.tolist() == [[2, 0]]


def test_a_point_at_the_radius_is_outside(device: torch.device) -> None:
    cloud = torch.tensor([[[3.0, 4, 0]]], device=device)
    center = torch.zeros(1, 1, 3, device=device)
    assert ball_query(cloud, center, 5, 1)[1].item() == 0
    assert ball_query(cloud, center, 5.0000005, 1)[1].item() == 1


def test_a_point_without_a_sample_is_not_counted(device: torch.device) -> None:
    cloud = torch.tensor([[[0.0, 0, 0], [torch.nan, 0, 0], [3, 0, 0], [4, 0, 0]]], device=device)
    samples = cloud[:, [1, 2, 0]]
    assignment, squared = nearest_sample(cloud, samples, lengths=[3])
    assert assignment.tolist() == [[2, -1, 1, -1]]
    assert squared.tolist() == [[0, torch.inf, 0, torch.inf]]
    assert count_points(assignment, 3).tolist() == [[0, 1, 1]]
    assert nearest_sample(cloud, samples, sample_lengths=[1])[0].tolist() == [[-1] * 4]


def test_strided_input_is_read_as_it_is(device: torch.device) -> None:
    rows = random(device, 2, 200, 4)
    cloud, queries = rows[..., :3], rows.transpose(1, 2).contiguous().transpose(1, 2)[:, ::2, 1:]
    dense = cloud.contiguous(), queries.contiguous()
    assert_same(knn(cloud, queries, 4), knn(*dense, 4))
    assert_same(ball_query(cloud, queries, 0.5, 4), ball_query(*dense, 0.5, 4))
    assert_same(nearest_sample(cloud, queries), nearest_sample(*dense))


def test_empty_sizes(device: torch.device) -> None:
    none, cloud = torch.empty(0, 8, 3, device=device), random(device, 2, 8, 3)
    assert [t.shape for t in knn(none, none, 3)] == [(0, 8, 3)] * 2
    assert [t.shape for t in knn(cloud, cloud[:, :0], 3)] == [(2, 0, 3)] * 2
    assert [t.shape for t in ball_query(cloud, cloud[:, :0], 1, 3)] == [(2, 0, 3), (2, 0)]
    assert [t.shape for t in nearest_sample(none, none)] == [(0, 8)] * 2
    assert (
        count_points(torch.empty(2, 0, dtype=torch.int32, device=device), 3).tolist()
        == [[0] * 3] * 2
    )


def test_an_infinite_distance_moves_nothing(device: torch.device) -> None:
    cloud = random(device, 1, 6, 3)
    cloud[0, 4] = torch.nan
    cloud.requires_grad_()
    knn(cloud, cloud[:, :4] + 0.1, 6)[1].nan_to_num(posinf=0).sum().backward()
    assert cloud.grad is not None
    assert cloud.grad.isfinite().all()
    assert (cloud.grad[0, 4] == 0).all()
    assert (cloud.grad[0, :4] != 0).all()


coordinate = st.sampled_from([0.0, -0.0, 1.0, 2.0, -1.0, 0.1, 1e-30, 3e38, torch.nan, torch.inf])
point = st.tuples(coordinate, coordinate, coordinate)


@settings(max_examples=60, deadline=None)
@given(
    rows=st.lists(point, min_size=1, max_size=12),
    others=st.lists(point, min_size=1, max_size=5),
    k=st.integers(1, 12),
    radius=st.sampled_from([1e-30, 0.1, 1.0, 1.5, 3e38, torch.inf]),
)
def test_any_small_cloud_equals_the_reference(
    rows: list[tuple[float, ...]], others: list[tuple[float, ...]], k: int, radius: float
) -> None:
    cloud, queries = torch.tensor([rows]), torch.tensor([others])
    few = min(k, len(rows))
    assert_same(knn(cloud, queries, few), reference.knn(cloud, queries, few))
    assert_same(
        ball_query(cloud, queries, radius, k), reference.ball_query(cloud, queries, radius, k)
    )
    assert_same(nearest_sample(cloud, queries), reference.nearest_sample(cloud, queries))
