"""Drop-in for the pointops with offsets: dilation, shells, interpolation, errors."""

import pytest
import torch
from tests.ops.compat.test_calls import clouds as make_clouds
from torch import Tensor

from farpoint_ops.compat import pointops

Clouds = tuple[Tensor, Tensor, Tensor, Tensor]


@pytest.fixture(params=[torch.int32, torch.int64])
def clouds(request: pytest.FixtureRequest, device: torch.device) -> Clouds:
    """Points and queries, and their offsets."""
    made = make_clouds(device, request.param)
    return tuple(made[name].detach() for name in ("xyz", "new_xyz", "offset", "new_offset"))


def test_dilation_takes_every_other_neighbor(clouds: Clouds) -> None:
    xyz, new_xyz, offset, new_offset = clouds
    feat = torch.rand(80, 5).to(xyz)
    arguments = xyz, new_xyz, feat, None, offset, new_offset
    idx = pointops.query_and_group(4, *arguments, dilation=1, with_feat=False)
    expected = pointops.knn_query(7, xyz, offset, new_xyz, new_offset)[0][:, ::2]
    large = [*range(6), *range(7, 17)]
    assert torch.equal(idx[large], expected[large])
    assert sorted(set(idx[6].tolist())) == [30, 31], "the cloud of two, as far as it goes"


def test_ball_query_spreads_over_the_shell(clouds: Clouds) -> None:
    xyz, new_xyz, offset, new_offset = clouds
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


def test_interpolation_leaves_out_what_does_not_exist(clouds: Clouds) -> None:
    xyz, new_xyz, offset, new_offset = clouds
    feat = torch.rand(80, 5).to(xyz)
    feat[[0, -1]] = 1e9  # of other clouds than the one that has too few points
    feat.requires_grad_()
    idx, distance = pointops.knn_query(3, xyz, offset, new_xyz, new_offset)
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


def test_bad_offsets_are_named(clouds: Clouds) -> None:
    xyz, new_xyz, offset, _ = clouds
    with pytest.raises(ValueError, match=r"offset: expected offsets that rise to 80.*got \[30\]"):
        pointops.knn_query(3, xyz, offset[:1])
    with pytest.raises(
        ValueError, match=r"new_offset: expected shape \(B,\) with B = 3, got \[1\]"
    ):
        pointops.knn_query(3, xyz, offset, xyz, offset[2:])
    with pytest.raises(ValueError, match="nsample, offset: expected both where idx is None"):
        pointops.knn_query_and_group(xyz, xyz)
    with pytest.raises(ValueError, match="min_radius: expected less than max_radius"):
        pointops.ball_query(3, 0.1, 0.2, xyz, offset)
    with pytest.raises(TypeError, match="offset: expected int32 or int64"):
        pointops.KNNQuery.apply(4, xyz, new_xyz, offset, offset)  # which takes offsets first


def test_batched_calls_are_refused(device: torch.device) -> None:
    cloud = torch.rand(1, 80, 3, device=device)
    rows = torch.zeros(1, 4, 3, dtype=torch.int32, device=device)
    with pytest.raises(TypeError, match="new_offset"):
        pointops.furthestsampling(cloud, 9)
    with pytest.raises(TypeError, match="offset"):
        pointops.knnquery(4, cloud, cloud)
    with pytest.raises(TypeError, match="offset"):
        pointops.interpolation(cloud.mT, rows, rows.float())
    with pytest.raises(ValueError, match=r"feat: expected shape \(n, c\), got \[1, 3, 80\]"):
        pointops.grouping(cloud.mT, rows)


def test_a_name_of_the_batched_library_is_an_error_that_names_its_module() -> None:
    for name in ("GroupAll", "gathering", "knnquery_heap"):
        with pytest.raises(AttributeError, match=rf"{name}.* in {pointops.__name__}.batched"):
            getattr(pointops, name)
    with pytest.raises(AttributeError, match=r"no attribute 'gatherings'$"):
        _ = pointops.gatherings
    assert not hasattr(pointops, "gathering")
