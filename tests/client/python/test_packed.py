"""`PackedCloud`: made from messages, read in place, and sent without being unpacked."""

import array
import tracemalloc
from functools import partial
from types import SimpleNamespace

import numpy as np
import pytest
from tests.support.messages import columns_of, foxglove_message, ros_message

import farpoint
from farpoint import PackedCloud, PackedField
from farpoint._rpcs.sample import SampleRpc
from farpoint._rpcs.serialized import in_stream
from farpoint.packed import as_packed
from farpoint.v1 import sampling_pb2 as pb

RANDOM = np.random.default_rng(12)
POINTS = RANDOM.normal(size=(60, 3)).astype(np.float32)
FIELDS = [PackedField(name, 4 * i, "float32") for i, name in enumerate("xyz")]
RING = RANDOM.integers(0, 128, 60).astype(np.uint8)
NORMALS = RANDOM.normal(size=(60, 2)).astype(np.float64)


@pytest.mark.parametrize("order", ["<", ">"])
@pytest.mark.parametrize(("height", "gap"), [(1, 0), (6, 0), (6, 7)])
def test_a_message_of_ros_is_read_in_place(order, height, gap):
    columns = columns_of(POINTS, ring=RING, normals=NORMALS)
    message = ros_message(columns, height=height, order=order, gap=gap)
    cloud = PackedCloud.from_ros(message)
    assert np.shares_memory(cloud.data, message.data)
    assert gap or np.shares_memory(cloud.records, message.data)
    assert repr(cloud).endswith(f"(60 points of {cloud.point_step} bytes: x, y, z, ring, normals)")
    np.testing.assert_array_equal(cloud.points, POINTS)
    np.testing.assert_array_equal(cloud.attributes["ring"], RING)
    np.testing.assert_array_equal(cloud.attributes["normals"], NORMALS)
    assert cloud.attributes["normals"].dtype.isnative
    rows = np.array([59, 3, 3])
    taken = cloud.take(rows)
    np.testing.assert_array_equal(taken.points, POINTS[rows])
    np.testing.assert_array_equal(taken.attributes["normals"], NORMALS[rows])
    assert (taken.fields, taken.point_step) == (cloud.fields, cloud.point_step)
    assert (taken.width, taken.height, len(taken.data)) == (3, 1, 3 * cloud.point_step)


def test_a_message_of_foxglove():
    message = foxglove_message(columns_of(POINTS, ring=RING))
    message.fields = tuple(message.fields)  # as a repeated field of protobuf, no list
    cloud = as_packed(message)
    assert cloud is not None
    assert cloud.fields == PackedCloud.from_foxglove(message).fields
    np.testing.assert_array_equal(cloud.points, POINTS)
    np.testing.assert_array_equal(cloud.attributes["ring"], RING)


@pytest.mark.parametrize(
    "data",
    [
        POINTS,
        POINTS.tobytes(),
        bytearray(POINTS.tobytes()),
        memoryview(POINTS),
        array.array("B", POINTS.tobytes()),
        list(POINTS.tobytes()),
    ],
)
def test_data_of_any_kind(data):
    cloud = PackedCloud(FIELDS, data, 12, 60)
    np.testing.assert_array_equal(cloud.points, POINTS)


def test_values_without_a_meaning_are_ignored():
    message = ros_message(columns_of(POINTS))
    message.row_step = 5
    message.fields[0].count = 0
    unnamed = [SimpleNamespace(name=n, offset=0, datatype=2, count=1) for n in ("_", "_", "")]
    message.fields += unnamed
    cloud = PackedCloud.from_ros(message)
    np.testing.assert_array_equal(cloud.points, POINTS)
    assert list(cloud.attributes) == ["_"]


WRONG = {
    "a type": ({"fields": [SimpleNamespace(name="x", offset=0, datatype=12, count=1)]}, "type 12"),
    "a field": ({"point_step": 8}, "y is in bytes 8 to 11"),
    "data": ({"data": bytes(5)}, "expected 1080 bytes of points, got 5"),
    "gaps": ({"data": np.zeros((1080, 2), np.uint8)[:, 0]}, "must be contiguous bytes"),
    "text": ({"data": "points"}, "got str"),
    "row_step": ({"height": 2, "width": 30, "row_step": 539}, "row_step is 539, expected 30"),
    "a sign": ({"width": -1}, "must not be negative"),
}


@pytest.mark.parametrize("case", WRONG)
def test_a_contradiction_is_an_error(case):
    changes, error = WRONG[case]
    message = ros_message(columns_of(POINTS))
    for name, value in changes.items():
        setattr(message, name, value)
    with pytest.raises(farpoint.InvalidArgumentError, match=error) as caught:
        PackedCloud.from_ros(message)
    assert caught.value.field.startswith("packed_cloud")


def test_a_foxglove_cloud_of_parts_of_points():
    message = foxglove_message(columns_of(POINTS))
    message.data += b"1"
    with pytest.raises(farpoint.InvalidArgumentError, match="whole points of point_stride 18"):
        PackedCloud.from_foxglove(message)


@pytest.mark.parametrize(
    ("message", "error"),
    [
        (ros_message({"x": POINTS[:, 0].copy()}), "x, y and z once each, got x"),
        (ros_message(columns_of(POINTS > 0)), "the field x must be one number per point, got 1 of"),
        (ros_message({"x": POINTS, "y": RING, "z": RING}), "got 3 of float32"),
        (ros_message(columns_of(POINTS[:0])), "at least one point"),
        (PackedCloud([PackedField(a, 0, "complex64") for a in "xyz"], bytes(8), 8, 1), "x must be"),
        (
            PackedCloud([*FIELDS, PackedField("c", 0, "complex64")], bytes(12), 12, 1),
            "complex64 cannot be sent",
        ),
    ],
)
def test_a_cloud_that_cannot_be_sampled_is_not_sent(client, server, message, error):
    with pytest.raises(farpoint.InvalidArgumentError, match=error):
        client.sample(message, 1)
    assert not server.requests


@pytest.mark.parametrize("height", [1, 64])
@pytest.mark.parametrize(
    "kind",
    [bytes, bytearray, partial(np.frombuffer, dtype=np.uint8), partial(array.array, "B")],
    ids=["bytes", "bytearray", "numpy", "array"],
)
def test_the_payload_is_copied_once_into_the_message(height, kind):
    """Building the request copies none of it; serializing it, which gRPC asks for, copies it."""
    message = ros_message(columns_of(RANDOM.normal(size=(1 << 16, 3))), height=height, gap=4)
    raw = message.data.tobytes()
    message.data = kind(raw)
    payload = len(raw) - 4
    tracemalloc.start()
    try:
        request = SampleRpc(message, 64).request
        assert tracemalloc.get_traced_memory()[1] < 100_000 < payload // 10
        sent = request.SerializeToString()
        assert payload < tracemalloc.get_traced_memory()[1] < payload + 100_000
    finally:
        tracemalloc.stop()
    parsed = pb.SampleRequest.FromString(sent)
    assert parsed.packed_cloud.data == raw[:payload]
    assert parsed.packed_cloud.row_step == (0 if height == 1 else message.row_step)
    assert request.ByteSize() == len(sent)
    streamed = in_stream(request, pb.STREAM_MODE_LATEST).SerializeToString()
    assert pb.SampleStreamRequest.FromString(streamed) == pb.SampleStreamRequest(
        request=parsed, mode=pb.STREAM_MODE_LATEST
    )


def test_a_batch_of_one_layout_is_one_packed_cloud():
    clouds = [ros_message(columns_of(POINTS), height=h, gap=g) for h, g in ((1, 0), (4, 0), (5, 9))]
    request = pb.SampleRequest.FromString(SampleRpc(clouds, 7).request.SerializeToString())
    cloud = request.packed_cloud
    assert list(request.lengths) == [60, 60, 60]
    assert (cloud.width, cloud.height, cloud.row_step) == (180, 1, 0)
    assert cloud.data == clouds[0].data.tobytes() * 3
    assert not request.HasField("points")


def test_other_uses_get_arrays(client, server):
    message = ros_message(columns_of(POINTS, ring=RING))
    with pytest.raises(farpoint.UnimplementedError):
        client.encode(message)
    samples = client.sample([message, POINTS[:18]], 5)
    assert server.requests[0].points.shape == [78, 3]
    np.testing.assert_array_equal(samples[0].attributes["ring"], RING[samples[0].indices])


@pytest.mark.parametrize("value", [POINTS, None, [1.0], SimpleNamespace(data=b"", fields=[])])
def test_anything_else_is_no_packed_cloud(value):
    assert as_packed(value) is None
