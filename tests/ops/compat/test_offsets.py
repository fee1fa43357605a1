"""Drop-in for the pointops with offsets, call by call: Point Transformer's and Pointcept's."""

from types import ModuleType

import pytest
import torch
from torch import Tensor

from farpoint_ops import farthest_point_sample_ragged, reference
from farpoint_ops.compat import pointops
from farpoint_ops.compat.pointops import batched

SIZES, QUERIES = [30, 2, 48], [6, 1, 10]


@pytest.fixture
def xyz(device: torch.device) -> Tensor:
    return torch.rand(sum(SIZES), 3, generator=torch.Generator().manual_seed(0)).to(device)


@pytest.fixture(params=[torch.int32, torch.int64])
def offset(request: pytest.FixtureRequest, device: torch.device) -> Tensor:
    return torch.tensor(SIZES).cumsum(0).to(device, request.param)


@pytest.fixture
def new_offset(offset: Tensor) -> Tensor:
    return torch.tensor(QUERIES).cumsum(0).to(offset)


@pytest.fixture
def new_xyz(xyz: Tensor) -> Tensor:
    """Each query near a point of its own cloud."""
    rows = [*range(6), 30, *range(32, 42)]
    return xyz[rows] + 0.01


def nearest(xyz: Tensor, new_xyz: Tensor, k: int) -> tuple[Tensor, Tensor]:
    """Rows and distances, with -1 and 1e5 for what the cloud of two lacks."""
    rows, distances, first = [], [], 0
    clouds = zip(xyz.split(SIZES), new_xyz.split(QUERIES), strict=True)
    for cloud, queries in clouds:
        found = min(k, len(cloud))
        idx, squared = reference.knn(cloud[None], queries[None], found)
        fill = torch.nn.functional.pad
        rows.append(fill(idx[0] + first, (0, k - found), value=-1))
        distances.append(fill(squared[0].sqrt(), (0, k - found), value=1e5))
        first += len(cloud)
    return torch.cat(rows), torch.cat(distances)


def test_sampling_is_ours(xyz: Tensor, offset: Tensor, new_offset: Tensor) -> None:
    expected = farthest_point_sample_ragged(xyz, [0, *offset.tolist()], QUERIES)
    for sample in (
        pointops.farthest_point_sampling,
        pointops.furthestsampling,
        pointops.FarthestPointSampling.apply,
        pointops.FurthestSampling.apply,
    ):
        assert torch.equal(sample(xyz, offset, new_offset), expected)


def test_knn_in_both_orders_of_arguments(
    xyz: Tensor, new_xyz: Tensor, offset: Tensor, new_offset: Tensor
) -> None:
    expected = nearest(xyz, new_xyz, 4)
    for idx, distance in (
        pointops.knn_query(4, xyz, offset, new_xyz, new_offset),
        pointops.knnquery(4, xyz, new_xyz, offset, new_offset),
        pointops.KNNQuery.apply(4, xyz, offset, new_xyz, new_offset),
    ):
        assert idx.dtype == torch.int32
        assert torch.equal(idx, expected[0])
        torch.testing.assert_close(distance, expected[1])


def test_a_batch_may_query_itself(xyz: Tensor, offset: Tensor) -> None:
    idx, distance = pointops.KNNQuery.apply(3, xyz.requires_grad_(), offset)
    assert torch.equal(idx[:, 0], torch.arange(80, dtype=torch.int32, device=xyz.device))
    assert torch.equal(pointops.knnquery(3, xyz, None, offset, offset)[0], idx)
    assert not distance.requires_grad


def test_grouping_gives_zeros_for_neighbors_that_do_not_exist(
    xyz: Tensor, new_xyz: Tensor, offset: Tensor, new_offset: Tensor
) -> None:
    feat = torch.rand(80, 5).to(xyz).requires_grad_()
    idx, _ = pointops.knn_query(4, xyz, offset, new_xyz, new_offset)
    grouped = pointops.grouping(idx, feat, xyz, new_xyz, with_xyz=True)
    exists = (idx >= 0)[..., None]
    expected = torch.cat([xyz[idx.long()] - new_xyz[:, None], feat[idx.long()]], -1) * exists
    assert torch.equal(grouped, expected)
    assert torch.equal(pointops.grouping(idx, feat, xyz), expected[..., 3:])
    assert torch.equal(pointops.grouping2(feat, idx), expected[..., 3:])
    assert torch.equal(pointops.Grouping.apply(feat, idx), expected[..., 3:])
    (actual,) = torch.autograd.grad(grouped.sum(), feat)
    assert torch.equal(actual, torch.autograd.grad(expected.sum(), feat)[0])


def test_knn_query_and_group(
    xyz: Tensor, new_xyz: Tensor, offset: Tensor, new_offset: Tensor
) -> None:
    feat = torch.rand(80, 5).to(xyz)
    grouped, idx = pointops.knn_query_and_group(
        feat, xyz, offset, new_xyz, new_offset, nsample=4, with_xyz=True
    )
    assert torch.equal(idx, nearest(xyz, new_xyz, 4)[0])
    assert torch.equal(grouped, pointops.grouping(idx, feat, xyz, new_xyz, True))
    again, _ = pointops.knn_query_and_group(feat, xyz, idx=idx)
    assert torch.equal(again, grouped[..., 3:])
    original = pointops.queryandgroup(4, xyz, new_xyz, feat, None, offset, new_offset)
    assert torch.equal(original, grouped)
    both = pointops.query_and_group(4, xyz, new_xyz, feat, None, offset, new_offset)
    assert torch.equal(both[0], grouped)
    assert torch.equal(both[1], idx)
    with pytest.raises(ValueError, match="nsample, offset: expected both where idx is None"):
        pointops.knn_query_and_group(feat, xyz)


def test_dilation_takes_every_other_neighbor(
    xyz: Tensor, new_xyz: Tensor, offset: Tensor, new_offset: Tensor
) -> None:
    feat = torch.rand(80, 5).to(xyz)
    arguments = xyz, new_xyz, feat, None, offset, new_offset
    idx = pointops.query_and_group(4, *arguments, dilation=1, with_feat=False)
    expected = nearest(xyz, new_xyz, 7)[0][:, ::2]
    large = [*range(6), *range(7, 17)]
    assert torch.equal(idx[large], expected[large])
    assert sorted(set(idx[6].tolist())) == [30, 31], "the cloud of two, as far as it goes"


def test_ball_query_spreads_over_the_shell(
    xyz: Tensor, new_xyz: Tensor, offset: Tensor, new_offset: Tensor
) -> None:
    idx, distance = pointops.ball_query(5, 0.5, 0.1, xyz, offset, new_xyz, new_offset)
    apart = torch.cdist(new_xyz, xyz, compute_mode="donot_use_mm_for_euclid_dist")
    cloud = pointops.offset2batch(offset)
    own = pointops.offset2batch(new_offset)[:, None] == cloud
    for m in range(len(new_xyz)):
        inside = own[m] & (apart[m] >= 0.1) & (apart[m] < 0.5)
        order = apart[m].masked_fill(~inside, torch.inf).argsort()[: inside.sum()].tolist()
        if len(order) > 5:
            order = [order[i * len(order) // 5] for i in range(5)]
        assert idx[m].tolist() == order + [-1] * (5 - len(order))
        torch.testing.assert_close(distance[m, : len(order)], apart[m, order])
    assert (distance[idx < 0] == 1e5).all()
    assert (idx >= 0).any()
    assert torch.equal(
        pointops.BallQuery.apply(5, 0.5, 0.1, xyz, offset, new_xyz, new_offset)[0], idx
    )


def test_random_ball_query_takes_any_of_the_shell(
    xyz: Tensor, new_xyz: Tensor, offset: Tensor, new_offset: Tensor
) -> None:
    arguments = 0.5, 0.1, xyz, offset, new_xyz, new_offset
    every, _ = pointops.ball_query(48, *arguments)
    some = torch.stack([pointops.random_ball_query(5, *arguments)[0] for _ in range(20)], 1)
    for row, drawn in zip(every.tolist(), some.tolist(), strict=True):
        assert {i for draw in drawn for i in draw} <= {*row, -1}
        assert all(len(draw) == len(set(draw)) for draw in drawn if -1 not in draw)
    assert len({tuple(draw) for draw in some[0].tolist()}) > 1


def test_ball_query_and_group(
    xyz: Tensor, new_xyz: Tensor, offset: Tensor, new_offset: Tensor
) -> None:
    feat = torch.rand(80, 5).to(xyz)
    grouped, idx = pointops.ball_query_and_group(
        feat, xyz, offset, new_xyz, new_offset, max_radio=0.5, nsample=3
    )
    assert torch.equal(idx, pointops.ball_query(3, 0.5, 0, xyz, offset, new_xyz, new_offset)[0])
    assert torch.equal(grouped, pointops.grouping(idx, feat, xyz, new_xyz))


def test_interpolation_leaves_out_what_does_not_exist(
    xyz: Tensor, new_xyz: Tensor, offset: Tensor, new_offset: Tensor
) -> None:
    feat = torch.rand(80, 5).to(xyz)
    feat[[0, -1]] = 1e9  # of other clouds than the one that has too few points
    feat.requires_grad_()
    idx, distance = nearest(xyz, new_xyz, 3)
    weight = torch.where(idx < 0, 0, 1 / (distance + 1e-8))
    weight = weight / weight.sum(1, keepdim=True)
    expected = (feat[idx.long()] * weight[..., None]).sum(1)
    for interpolation in (pointops.interpolation, pointops.interpolation2):
        actual = interpolation(xyz, new_xyz, feat, offset, new_offset)
        torch.testing.assert_close(actual, expected)
        (grad,) = torch.autograd.grad(actual.square().sum(), feat)
        torch.testing.assert_close(
            grad, torch.autograd.grad(expected.square().sum(), feat, retain_graph=True)[0]
        )


def test_attention_steps(device: torch.device) -> None:
    query, key, value = torch.rand(3, 6, 2, 4, device=device, requires_grad=True)
    target = torch.tensor([0, 0, 3, 5], device=device)
    refer = torch.tensor([1, 2, 2, 4], device=device)
    relation = pointops.attention_relation_step(query, key, query.new_ones(4), target, refer)
    expected = torch.einsum("mgc,mgc->mg", query[target], key[refer])
    torch.testing.assert_close(relation, expected)
    out = pointops.attention_fusion_step(relation, value, target, refer)
    torch.testing.assert_close(
        out[0], relation[0, :, None] * value[1] + relation[1, :, None] * value[2]
    )
    assert not out[[1, 2, 4]].any()


def test_subtraction_and_aggregation(xyz: Tensor, offset: Tensor) -> None:
    idx, _ = pointops.knnquery(3, xyz, None, offset[:1] + 50, offset[:1] + 50)
    query, key = torch.rand(2, 80, 6).to(xyz)
    assert torch.equal(pointops.subtraction(query, key, idx), query[:, None] - key[idx.long()])
    position, weight = torch.rand(80, 3, 6).to(xyz), torch.rand(80, 3, 2).to(xyz)
    expected = ((key[idx.long()] + position) * weight.repeat(1, 1, 3)).sum(1)
    torch.testing.assert_close(pointops.aggregation(key, position, weight, idx), expected)


def test_offsets_and_batches(offset: Tensor) -> None:
    batch = pointops.offset2batch(offset)
    assert batch.tolist() == [0] * 30 + [1] * 2 + [2] * 48
    assert pointops.batch2offset(batch).tolist() == offset.tolist()


def test_bad_offsets_are_named(xyz: Tensor, offset: Tensor) -> None:
    with pytest.raises(ValueError, match=r"offset: expected offsets that rise to 80.*got \[30\]"):
        pointops.knn_query(3, xyz, offset[:1])
    with pytest.raises(ValueError, match="new_offset: expected 3 clouds, got 1"):
        pointops.knn_query(3, xyz, offset, xyz, offset[2:])
    with pytest.raises(ValueError, match="min_radius: expected less than max_radius"):
        pointops.ball_query(3, 0.1, 0.2, xyz, offset)


def test_batched_calls_are_refused(xyz: Tensor) -> None:
    cloud, rows = xyz[None], torch.zeros(1, 4, 3, dtype=torch.int32, device=xyz.device)
    with pytest.raises(TypeError, match="new_offset"):
        pointops.furthestsampling(cloud, 9)
    with pytest.raises(TypeError, match="offset"):
        pointops.knnquery(4, cloud, cloud)
    with pytest.raises(TypeError, match="offset"):
        pointops.interpolation(cloud.mT, rows, rows.float())
    with pytest.raises(ValueError, match=r"features: expected \(n, c\), got shape \(1, 3, 80\)"):
        pointops.grouping(cloud.mT, rows)


def test_knn_query_apply_takes_the_offsets_before_the_queries(
    xyz: Tensor, new_xyz: Tensor, offset: Tensor, new_offset: Tensor
) -> None:
    with pytest.raises(TypeError, match="offset: expected int32 or int64"):
        pointops.KNNQuery.apply(4, xyz, new_xyz, offset, new_offset)


def test_a_name_of_the_batched_library_says_where_it_is() -> None:
    for name in set(batched.__all__) - set(pointops.__all__):
        with pytest.raises(
            AttributeError, match=rf"{name}.* in farpoint_ops.compat.pointops.batch"
        ):
            getattr(pointops, name)
    with pytest.raises(AttributeError, match=r"no attribute 'gatherings'$"):
        _ = pointops.gatherings
    assert not hasattr(pointops, "gathering")


@pytest.mark.parametrize("library", [pointops, batched])
def test_every_listed_name_exists(library: ModuleType) -> None:
    assert {*library.__all__} <= vars(library).keys()
