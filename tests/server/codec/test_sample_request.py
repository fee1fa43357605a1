"""Messages of Sample: bounds of a request, the field named beyond them, and its response."""

import time

import numpy as np
import pytest
from tests.support.messages import array, tensor

from farpoint.v1 import sampling_pb2 as pb
from farpoint.v1 import tensor_pb2
from farpoint.v1.voxel_grid_pb2 import VOXEL_SELECTION_MEAN, VoxelGrid
from farpoint_server.codec.coordinates import decode_sample_request
from farpoint_server.codec.sample_request import (
    ParsedSampleRequest,
    SampleMessage,
    parse_sample_request,
)
from farpoint_server.codec.sample_response import response_bytes, serialize_sample_response
from farpoint_server.codec.tensors import (
    MAX_DIMENSIONS,
    RequestLimits,
    check_points,
    parse_head,
    parse_tensor,
)
from farpoint_server.compute.work import Outcome
from farpoint_server.errors import InvalidRequestError
from farpoint_server.kinds.method import MethodClouds, RandomRows
from farpoint_server.kinds.method import VoxelGrid as Grid
from farpoint_server.kinds.sample import Clouds, Samples

LIMITS = RequestLimits(message_bytes=1000, points=100, clouds=5)


FARTHEST, GRID, RANDOM, DISK = (
    pb.SAMPLING_METHOD_FARTHEST_POINT,
    pb.SAMPLING_METHOD_VOXEL_GRID,
    pb.SAMPLING_METHOD_RANDOM,
    pb.SAMPLING_METHOD_POISSON_DISK,
)
UNIT = VoxelGrid(voxel_size=1)


def zeros(*shape: int) -> tensor_pb2.Tensor:
    return tensor(np.zeros(shape, np.float32))


def request(points: int | tensor_pb2.Tensor = 4, **fields) -> pb.SampleRequest:
    points = zeros(points, 3) if isinstance(points, int) else points
    return pb.SampleRequest(**{"points": points, "sample_counts": [1]} | fields)


def whole(sent: pb.SampleRequest) -> SampleMessage:
    return SampleMessage(sent, None, sent.ByteSize())


def attribute(name: str, *shape: int) -> tensor_pb2.Attribute:
    return tensor_pb2.Attribute(name=name, values=zeros(*shape))


def test_a_message_may_have_as_many_bytes_as_the_limit():
    message = whole(request())
    parse_sample_request(message, RequestLimits(message.size, 100, 5))
    with pytest.raises(InvalidRequestError, match="request: expected a message of at most"):
        parse_sample_request(message, RequestLimits(message.size - 1, 100, 5))


def test_a_size_of_zero_is_a_size():
    values = zeros(4, 0)
    assert parse_tensor(values, "values").array().shape == (4, 0)
    assert parse_head(zeros(0, 7), "values")[2] == 0
    parsed = parse_sample_request(whole(request(attributes=[attribute("none", 4, 0)])), LIMITS)
    assert [(name, v.shape) for name, v in parsed.attributes] == [("none", (4, 0))]


def test_a_size_below_zero_is_wrong():
    with pytest.raises(InvalidRequestError, match="no negative size"):
        parse_head(tensor_pb2.Tensor(data_type=1, shape=[4, -1]), "values")


def test_a_tensor_has_at_most_32_dimensions():
    assert MAX_DIMENSIONS == 32
    assert parse_tensor(zeros(*[1] * 32), "values").array().ndim == 32
    with pytest.raises(InvalidRequestError, match="at most 32 dimensions"):
        parse_tensor(zeros(*[1] * 33), "values")


@pytest.mark.parametrize("shape", [(12,), (4, 2), (4, 4), (4, 3, 1), (0, 3), (101, 3)])
def test_points_are_rows_of_three_and_no_more_than_the_limit(shape):
    check_points(zeros(1, 3), LIMITS)
    check_points(zeros(100, 3), LIMITS)
    with pytest.raises(InvalidRequestError, match=r"1 to 100 points|\(P, 3\)"):
        check_points(zeros(*shape), LIMITS)


def by(method: int, **changes) -> dict:
    """Fields of a right request of a method, and some of them changed."""
    right = {
        FARTHEST: {},
        GRID: {"voxel_grid": UNIT, "sample_counts": []},
        RANDOM: {},
        DISK: {"covering_radius": 1, "sample_counts": []},
    }
    return {"method": method, **right[method], **changes}


def grid(**fields) -> dict:
    return by(GRID, voxel_grid=VoxelGrid(**{"voxel_size": 1, **fields}))


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({"lengths": [1] * 4}, None),
        ({"lengths": [1, 1, 1, 1, 0]}, "lengths[4]"),
        ({"lengths": [4, 1]}, "lengths"),
        ({"lengths": [3]}, "lengths"),
        ({"lengths": [5]}, "lengths[0]"),
        ({"sample_counts": [4]}, None),
        ({"sample_counts": [5]}, "sample_counts[0]"),
        ({"sample_counts": [0]}, "sample_counts[0]"),
        ({"lengths": [1, 3], "sample_counts": [1, 3]}, None),
        ({"lengths": [1, 3], "sample_counts": [1, 4]}, "sample_counts[1]"),
        ({"lengths": [1, 3], "sample_counts": [2]}, "sample_counts[0]"),
        ({"lengths": [1, 3], "sample_counts": [1, 1, 1]}, "sample_counts"),
        ({"start_indices": [3]}, None),
        ({"start_indices": [4]}, "start_indices[0]"),
        ({"start_indices": [-1]}, "start_indices[0]"),
        ({"lengths": [1, 3], "start_indices": [0, 2]}, None),
        ({"lengths": [1, 3], "start_indices": [0, 3]}, "start_indices[1]"),
        ({"method": 7}, "method"),
        ({"nonfinite_policy": 7}, "nonfinite_policy"),
        ({"attributes": [attribute("a", 4), attribute("b", 4, 2)]}, None),
        ({"attributes": [attribute("a", 4), attribute("a", 4)]}, "attributes[1].name"),
        ({"attributes": [attribute("", 4)]}, "attributes[0].name"),
        ({"attributes": [attribute("a", 5)]}, "attributes[0].values.shape"),
        ({"attributes": [attribute("a")]}, "attributes[0].values.shape"),
        ({"attributes": [attribute("a" * 256, 4)]}, None),
        ({"attributes": [attribute("a" * 257, 4)]}, "attributes[0].name"),
        ({"attributes": [attribute(str(i), 4) for i in range(256)]}, None),
        ({"attributes": [attribute(str(i), 4) for i in range(257)]}, "attributes"),
        (by(FARTHEST, voxel_grid=UNIT), "voxel_grid"),
        (by(FARTHEST, seeds=[0]), "seeds"),
        (by(DISK, seeds=[0]), "seeds"),
        (by(DISK, covering_radius=None, sample_counts=[1]), "covering_radius"),
        (by(GRID, sample_counts=[1]), "sample_counts"),
        (by(GRID, start_indices=[0]), "start_indices"),
        (by(GRID, covering_radius=0), "covering_radius"),
        (by(GRID, return_distances=True), "return_distances"),
        (by(GRID, voxel_grid=None), "voxel_grid.voxel_size"),
        (grid(voxel_size=-1), "voxel_grid.voxel_size"),
        (grid(voxel_size=float("nan")), "voxel_grid.voxel_size"),
        (grid(selection=9), "voxel_grid.selection"),
        (grid(origin=[1, 2]), "voxel_grid.origin"),
        (grid(origin=[1, 2, float("inf")]), "voxel_grid.origin"),
        (by(RANDOM, sample_counts=[]), "sample_counts"),
        (by(RANDOM, sample_counts=[5]), "sample_counts[0]"),
        (by(RANDOM, voxel_grid=UNIT), "voxel_grid"),
        (by(RANDOM, start_indices=[0]), "start_indices"),
        (by(RANDOM, lengths=[1, 1, 2], seeds=[1, 2]), "seeds"),
    ],
)
def test_numbers_at_their_bounds(fields, field):
    limits = RequestLimits(1 << 20, 100, 5)
    if field is None:
        parse_sample_request(whole(request(**fields)), limits)
        return
    with pytest.raises(InvalidRequestError) as caught:
        parse_sample_request(whole(request(**fields)), limits)
    assert caught.value.field == field


def parsed(**fields) -> ParsedSampleRequest:
    return parse_sample_request(whole(request(**fields)), LIMITS)


def test_parameters_are_read():
    wanted = VoxelGrid(voxel_size=0.5, selection=VOXEL_SELECTION_MEAN, origin=[1, 2, 3])
    assert parsed(**by(GRID, voxel_grid=wanted)).method == Grid(0.5, "mean", (1, 2, 3))
    assert parsed(**by(GRID)).method == Grid(1, "first", (0, 0, 0))
    batch = by(RANDOM, lengths=[1, 3])
    assert parsed(**batch).method == RandomRows((0, 0))
    assert parsed(**batch, seeds=[7]).method == RandomRows((7, 7))
    assert parsed(**batch, seeds=[7, 2**64 - 1]).method == RandomRows((7, 2**64 - 1))
    disks = parsed(**by(DISK, covering_radius=2))
    assert (disks.method, disks.covering_radius) == (None, 2)
    assert parsed(covering_radius=0).covering_radius == 0


def test_one_sample_count_is_that_of_each_cloud():
    decoded = decode_sample_request(parsed(lengths=[1, 3], sample_counts=[1]))
    assert decoded.work.clouds.sample_counts.tolist() == [1, 1]


def test_float64_is_not_shifted_for_a_method():
    points = np.array([[1e9, 0, 0], [1e9 + 0.25, 1, 2]])
    decoded = decode_sample_request(parsed(points=tensor(points), **by(GRID)))
    assert isinstance(decoded.work.clouds, MethodClouds)
    assert decoded.origins is None
    np.testing.assert_array_equal(decoded.work.clouds.points, points)
    plain = decode_sample_request(parsed(points=tensor(points), **by(FARTHEST)))
    assert isinstance(plain.work.clouds, Clouds)
    assert plain.origins is not None


@pytest.mark.parametrize(("exponent", "right"), [(53, True), (54, False), (1000, False)])
def test_a_point_has_a_voxel_of_its_own_number(exponent, right):
    points = np.array([[0, 0, 999.0], [np.nan, 0, 0]])
    request = parsed(
        points=tensor(points),
        nonfinite_policy=pb.NONFINITE_POLICY_IGNORE,
        **grid(voxel_size=2.0**-exponent, origin=[0, 0, 1000]),
    )
    if right:
        decode_sample_request(request)
    else:
        with pytest.raises(InvalidRequestError, match=r"within 2\^53 voxels"):
            decode_sample_request(request)


def test_what_was_sent_in_the_message_is_not_copied():
    sent = request(attributes=[attribute("a", 4), attribute("b", 4, 2)])
    parsed = parse_sample_request(whole(sent), LIMITS)
    assert parsed.shared_bytes == 0
    assert parsed.points.owned().data is parsed.points.data


CLOUDS = np.arange(18).reshape(6, 3)
# Of two clouds of two and four points one and two: rows 1 | 0 and 3 within each.
ROWS = np.array([1, 2, 5], np.int32)
DISTANCES = np.array([0.5, 1.5, 2.5], np.float32)


def answer(dtype: str = "float32", **fields) -> pb.SampleResponse:
    """To a request of two clouds."""
    sent = pb.SampleRequest(
        points=tensor(CLOUDS.astype(dtype)), lengths=[2, 4], sample_counts=[1, 2], **fields
    )
    decoded = decode_sample_request(parse_sample_request(whole(sent), LIMITS))
    # Others in the batch may have asked for distances.
    outcome = Outcome(Samples(ROWS, DISTANCES), 1.5, 2.5)
    data = serialize_sample_response(time.monotonic() - 7, decoded, outcome)
    return pb.SampleResponse.FromString(data)


def present(response: pb.SampleResponse) -> set[str]:
    return {field.name for field, _ in response.ListFields()}


def test_a_response_has_what_was_asked_for_and_nothing_else():
    """Indices count from the first row of their cloud; points come in their type."""
    response = answer()
    assert array(response.indices, "<i4").tolist() == [1, 0, 3]
    assert list(response.lengths) == [1, 2]
    assert (response.timings.queue_ms, response.timings.compute_ms) == (1.5, 2.5)
    assert 7000 <= response.timings.server_ms < 60_000
    assert present(response) == {"indices", "lengths", "timings"}
    for dtype, asked, expected in (
        ("float32", {"return_points": True}, {"points": CLOUDS[ROWS]}),
        ("float32", {"return_distances": True}, {"distances": DISTANCES}),
        ("float64", {}, {"origins": CLOUDS[[0, 2]]}),
    ):
        response = answer(dtype, **asked)
        assert present(response) == {"indices", "lengths", "timings", *expected}
        for name, values in expected.items():
            found = array(getattr(response, name), "<f8" if dtype == "float64" else "<f4")
            assert found.tolist() == values.tolist()


def test_a_response_is_counted_by_its_rows_before_it_is_made():
    values = [tensor_pb2.Attribute(name="a", values=tensor(np.zeros((6, 2))))]
    sent = pb.SampleRequest(points=tensor(CLOUDS.astype(np.float64)), sample_counts=[2])
    sent.attributes.extend(values)
    parsed = parse_sample_request(whole(sent), LIMITS)
    outcome = Outcome(Samples(ROWS[:2], None), 0, 0)
    # An index and a distance, three coordinates and two values of eight bytes.
    assert response_bytes(parsed, outcome) == 2 * (4 + 4 + 24 + 16)
