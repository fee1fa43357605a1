"""knn, ball_query and nearest_sample: exact results, the same on every device, k above N too."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support import reference
from tests.support.tensors import assert_same, random
from torch import Tensor

from farpoint_ops import ball_query, count_points, knn, nearest_sample


def queries_near(cloud: Tensor) -> Tensor:
    """Some of the points themselves, others near them, and one that is not finite."""
    near = cloud[-60:] * 1.001 + 0.01
    return torch.cat([cloud[:60], near, cloud[:1] + torch.inf])[None]


@pytest.mark.parametrize("k", [1, 2, 9, 40])
def test_knn_equals_the_reference(cloud: Tensor, k: int) -> None:
    k = min(k, len(cloud))
    actual = knn(cloud[None], queries_near(cloud), k)
    assert actual[0].dtype == torch.int32
    assert actual[1].dtype == torch.float32
    assert_same(actual, reference.knn(cloud.cpu()[None], queries_near(cloud).cpu(), k))


@pytest.mark.parametrize("k", [1, 4, 50])
@pytest.mark.parametrize(("scale", "inner"), [(0.05, 0), (0.5, 0), (5, 0), (0.7, 0.1), (0.7, 0.9)])
def test_ball_query_equals_the_reference(cloud: Tensor, k: int, scale: float, inner: float) -> None:
    """Balls and shells."""
    spread = cloud[cloud.isfinite().all(-1)].std().item()
    radius = spread * scale if 0 < spread < torch.inf else scale
    actual = ball_query(cloud[None], queries_near(cloud), radius, k, min_radius=inner * radius)
    expected = reference.ball_query(
        cloud.cpu()[None], queries_near(cloud).cpu(), radius, k, min_radius=inner * radius
    )
    assert_same(actual, expected)


def test_nearest_sample_equals_the_reference(cloud: Tensor) -> None:
    samples = queries_near(cloud)
    actual = nearest_sample(cloud[None], samples)
    assert_same(actual, reference.nearest_sample(cloud.cpu()[None], samples.cpu()))
    counts = count_points(actual[0], samples.size(1))
    assert_same((counts,), (reference.count_points(actual[0].cpu(), samples.size(1)),))
    assert counts.sum() == (actual[0] >= 0).sum()


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_halves_are_widened_before_any_arithmetic(device: torch.device, dtype: torch.dtype) -> None:
    """In float16 the square of these distances would be infinite."""
    cloud = (20_000 * random(device, 2, 300, 3)).clamp(-6e4, 6e4).to(dtype)
    wide = cloud.float()
    assert_same(knn(cloud, cloud, 4), knn(wide, wide, 4))
    assert_same(ball_query(cloud, cloud, 9e3, 4), ball_query(wide, wide, 9e3, 4))
    assert_same(nearest_sample(cloud, cloud[:, :9]), nearest_sample(wide, wide[:, :9]))
    assert knn(cloud, cloud, 4)[1].isfinite().all()


def test_a_radius_for_each_cloud(device: torch.device) -> None:
    """As a tensor, which nothing waits for, or as a list; also where an index is searched."""
    xyz, centers = random(device, 3, 5000, 3), random(device, 3, 70, 3)
    inner, outer = torch.tensor([0.0, 0.2, 0.1]), torch.tensor([0.1, 0.3, 2.0])
    for points in (xyz, xyz[:, :40], xyz[:, :40].double()):
        alone = [
            ball_query(points[b : b + 1], centers[b : b + 1], float(r), 9, min_radius=float(i))
            for b, (i, r) in enumerate(zip(inner, outer, strict=True))
        ]
        expected = tuple(map(torch.cat, zip(*alone, strict=True)))
        tensors = ball_query(points, centers, outer.to(device), 9, min_radius=inner.to(device))
        assert_same(tensors, expected)
        lists = ball_query(points, centers, outer.tolist(), 9, min_radius=inner.tolist())
        assert_same(lists, expected)


@pytest.mark.parametrize(
    "dtypes",
    [
        (torch.float32, torch.bfloat16),
        (torch.float16, torch.bfloat16),
        (torch.float32, torch.double),
    ],
)
def test_of_two_dtypes_the_wider_is_computed_in(
    device: torch.device, dtypes: tuple[torch.dtype, torch.dtype]
) -> None:
    wide = torch.promote_types(*dtypes)
    for first, second in (dtypes, dtypes[::-1]):
        xyz, others = random(device, 2, 90, 3).to(first), random(device, 2, 9, 3).to(second)
        points, queries = xyz.to(wide), others.to(wide)
        assert_same(knn(xyz, others, 4), knn(points, queries, 4))
        assert_same(ball_query(xyz, others, 0.7, 4), ball_query(points, queries, 0.7, 4))
        assert_same(nearest_sample(xyz, others), nearest_sample(points, queries))
        leaves = xyz.requires_grad_(), others.requires_grad_()
        gradients = torch.autograd.grad(knn(*leaves, 4)[1].sum(), leaves)
        assert [g.dtype for g in gradients] == [first, second]


def check_knn(xyz: Tensor, queries: Tensor, k: int, lengths: Tensor | None = None) -> None:
    """The reference's rows, and in float32 the bits of its distances."""
    idx, squared = knn(xyz, queries, k, lengths=lengths)
    expected = reference.knn(xyz.cpu(), queries.cpu(), k, lengths)
    assert_same((idx,), expected[:1])
    if xyz.dtype == torch.float64:
        torch.testing.assert_close(squared.cpu(), expected[1])
    else:
        assert_same((squared,), expected[1:])


@pytest.mark.parametrize("index", [torch.int32, torch.int64])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_padding_is_never_read(
    device: torch.device, dtype: torch.dtype, index: torch.dtype
) -> None:
    cloud, others = random(device, 3, 80, 3).to(dtype), random(device, 3, 30, 3).to(dtype)
    lengths = torch.tensor([80, 10, 2], dtype=index, device=device)
    some = torch.tensor([30, 0, 7], dtype=index, device=device)
    for padding in (0.0, torch.nan, 1e30):
        for b in range(3):
            cloud[b, lengths[b] :] = padding
        check_knn(cloud, others, 10, lengths)
        assert_same(
            ball_query(cloud, others, 0.7, 10, lengths=lengths.tolist()),
            reference.ball_query(cloud.cpu(), others.cpu(), 0.7, 10, lengths),
        )
        assert_same(
            nearest_sample(cloud, others, lengths=lengths, sample_lengths=some),
            reference.nearest_sample(cloud.cpu(), others.cpu(), lengths, some),
        )


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_points_that_are_not_finite_come_last(device: torch.device, dtype: torch.dtype) -> None:
    xyz, queries = random(device, 2, 40, 3).to(dtype) + 1e3, random(device, 2, 9, 3).to(dtype)
    for row in ([0, 2], slice(None)):
        xyz[1, row] = torch.nan
        for k in (3, 40, 60):
            check_knn(xyz, queries, k)


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


def test_an_empty_ball_and_the_places_left(device: torch.device) -> None:
    cloud = torch.tensor([[[5.0, 0, 0], [1, 0, 0], [2, 0, 0], [9, 0, 0]]], device=device)
    centers = torch.tensor([[[2.0, 0, 0], [20, 0, 0]]], device=device)
    idx, counts = ball_query(cloud, centers, 1.5, 4)
    assert idx.tolist() == [[[1, 2, 1, 1], [0, 0, 0, 0]]]
    assert counts.tolist() == [[2, 0]]


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


@pytest.mark.parametrize(("b", "n", "m"), [(0, 8, 8), (2, 8, 0), (2, 0, 4), (2, 0, 0)])
def test_empty_sizes(device: torch.device, b: int, n: int, m: int) -> None:
    xyz, others = random(device, b, n, 3), random(device, b, m, 3)
    if n:
        assert [t.shape for t in knn(xyz, others, 3)] == [(b, m, 3)] * 2
        assert [t.shape for t in ball_query(xyz, others, 1, 3)] == [(b, m, 3), (b, m)]
    actual = nearest_sample(xyz, others)
    assert_same(actual, reference.nearest_sample(xyz.cpu(), others.cpu()))
    assert count_points(actual[0], 3).sum() == (actual[0] >= 0).sum()


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


@pytest.mark.parametrize("k", [6, 9, 40, 200])
@pytest.mark.parametrize("n", [1, 5])
def test_knn_of_more_than_there_are(device: torch.device, n: int, k: int) -> None:
    xyz, queries = random(device, 2, n, 3), random(device, 2, 70, 3)
    queries[0, 3, 1] = torch.nan
    idx, squared = knn(xyz, queries, k)
    assert_same((idx, squared), reference.knn(xyz.cpu(), queries.cpu(), k))
    assert_same((idx[..., n:],), (idx[..., :1].expand(-1, -1, k - n),))
    assert (squared[..., n:] == torch.inf).all()


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
