"""Packed clouds: the coordinates that records hold, and which number is named when it is wrong."""

import numpy as np
import pytest
from tests.support.messages import TYPES, tensor

from farpoint.v1 import packed_cloud_pb2, tensor_pb2
from farpoint.v1 import sampling_pb2 as pb
from farpoint_server.codec import sample_request
from farpoint_server.codec.coordinates import decode_sample_request, to_float32
from farpoint_server.codec.packed import parse_packed
from farpoint_server.codec.sample_request import (
    SampleMessage,
    parse_sample_request,
    upload_size,
)
from farpoint_server.codec.sample_response import response_bytes
from farpoint_server.codec.tensors import MAX_PACKED_FIELDS, RequestLimits, parse_tensor
from farpoint_server.compute.work import Outcome
from farpoint_server.errors import InvalidRequestError
from farpoint_server.kinds.sample import Samples

LIMITS = RequestLimits(message_bytes=1 << 20, points=1000, clouds=5)
RANDOM = np.random.default_rng(6)
LARGEST = 2**32 - 1


def fields(*described: tuple) -> list[packed_cloud_pb2.PackedField]:
    """Of (name, offset, type) or (name, offset, type, count)."""
    return [
        packed_cloud_pb2.PackedField(name=n, offset=o, data_type=TYPES[t], count=sum(c))
        for n, o, t, *c in described
    ]


XYZ = fields(("x", 0, "float32"), ("y", 4, "float32"), ("z", 8, "float32"))


def cloud(**numbers) -> packed_cloud_pb2.PackedCloud:
    """Two rows of three points of 16 bytes, with 8 bytes behind each row."""
    described = {"fields": XYZ, "width": 3, "height": 2, "point_step": 16, "row_step": 56}
    return packed_cloud_pb2.PackedCloud(**{**described, "data": bytes(104), **numbers})


def packed(xyz: list[np.ndarray], order: str, height: int = 1, gap: int = 0, before: int = 1):
    """x, y and z in records, in the order z, y, x, each `before` bytes behind what is before it."""
    offsets, at = {}, 0
    for axis in "zyx":
        offsets[axis] = at + before
        at += before + xyz["xyz".index(axis)].dtype.itemsize
    step = at + 3
    record = np.dtype(
        {
            "names": list("xyz"),
            "formats": [column.dtype.newbyteorder(order) for column in xyz],
            "offsets": [offsets[axis] for axis in "xyz"],
            "itemsize": step,
        }
    )
    width = len(xyz[0]) // height
    rows = RANDOM.integers(0, 255, (height, width * step + gap), dtype=np.uint8)
    records = np.ndarray((height, width), record, rows, strides=(*rows.strides[:1], step))
    for axis, column in zip("xyz", xyz, strict=True):
        records[axis] = column.reshape(height, width)
    return packed_cloud_pb2.PackedCloud(
        fields=fields(*((a, offsets[a], c.dtype.name) for a, c in zip("xyz", xyz, strict=True))),
        width=width,
        height=height,
        point_step=step,
        row_step=rows.shape[1],
        is_bigendian=order == ">",
        data=rows.tobytes(),
    )


def as_points(columns: list[np.ndarray]) -> np.ndarray:
    """A client's tensor of an array of such numbers."""
    stacked = np.stack(columns, axis=1)
    if stacked.dtype.kind in "iu":
        return stacked.astype(np.float32 if stacked.dtype.itemsize <= 2 else np.float64)
    return stacked


def values(dtype: str, count: int) -> np.ndarray:
    if dtype.startswith("float"):
        return (RANDOM.normal(size=count) * 50).astype(dtype)
    top = min(np.iinfo(dtype).max, 2**53)
    return RANDOM.integers(max(np.iinfo(dtype).min, -top), top, count, dtype=dtype, endpoint=True)


@pytest.mark.parametrize("order", ["<", ">"])
@pytest.mark.parametrize(
    "types",
    [
        *((name,) * 3 for name in TYPES if name != "bool"),
        ("float32", "float32", "float64"),
        ("float64", "int64", "float32"),
        ("float32", "int16", "uint8"),
        ("float32", "int32", "float32"),
        ("uint32", "int32", "int8"),
        ("float32", "float16", "float32"),
    ],
)
@pytest.mark.parametrize(("height", "gap"), [(1, 0), (4, 0), (4, 5)])
def test_coordinates_are_those_of_the_unpacked_cloud(types, order, height, gap):
    columns = [values(name, 40) for name in types]
    points = as_points(columns)
    view = parse_packed(packed(columns, order, height, gap), LIMITS)
    lengths = np.array([15, 25])
    found, origins = to_float32(view, lengths)
    plain = parse_tensor(tensor(points), "points")
    expected, expected_origins = to_float32(plain, lengths)
    assert found.dtype == np.float32
    assert found.tobytes() == expected.tobytes()
    assert (origins is None) == (expected_origins is None)
    assert origins is None or origins.tobytes() == expected_origins.tobytes()
    rows = np.array([39, 0, 7], np.int32)
    assert b"".join(view.take(rows, True)) == b"".join(plain.take(rows, True))
    owned = view._replace(is_shared=True).owned()
    assert not owned.is_shared
    assert owned.array().tobytes() == view.array().tobytes()
    assert owned.take(rows) == view.take(rows)


@pytest.mark.parametrize("order", ["<", ">"])
def test_bfloat16_is_read_by_its_bits(order):
    bits = [RANDOM.integers(0, 0x7F80, 40).astype(np.uint16) for _ in range(3)]
    message = packed(bits, order)
    for field in message.fields:
        field.data_type = tensor_pb2.DATA_TYPE_BFLOAT16
    view = parse_packed(message, LIMITS)
    stacked = np.stack(bits, axis=1)
    found, _ = to_float32(view, np.array([40]))
    assert (found.view(np.uint32) == stacked.astype(np.uint32) << 16).all()
    sent = tensor_pb2.Tensor.FromString(b"".join(view.take(np.array([3, 1], np.int32))))
    assert sent.data_type == tensor_pb2.DATA_TYPE_BFLOAT16
    assert sent.data == stacked[[3, 1]].astype("<u2").tobytes()


@pytest.mark.parametrize("wrong", [2**53 + 1, -(2**53) - 1])
def test_integers_that_float64_cannot_hold_are_refused(wrong):
    columns = [np.arange(4), np.array([0, wrong, 1, 2]), np.arange(4)]
    view = parse_packed(packed(columns, "<"), LIMITS)
    with pytest.raises(InvalidRequestError, match="within ±2") as caught:
        to_float32(view, np.array([4]))
    assert caught.value.field == "packed_cloud.data"
    columns[1][1] -= np.sign(wrong)
    to_float32(parse_packed(packed(columns, "<"), LIMITS), np.array([4]))


def test_the_last_row_need_not_be_padded_and_what_is_behind_it_is_not_read():
    assert parse_packed(cloud(data=bytes(104)), LIMITS).layout.size == 104
    parse_packed(cloud(data=bytes(500)), LIMITS)


def test_a_row_step_of_zero_is_that_of_rows_side_by_side():
    assert parse_packed(cloud(row_step=0, data=bytes(96)), LIMITS).layout.row_step == 48


WRONG = {
    "no width": ({"width": 0}, "width", "1 to 1000"),
    "a huge width": ({"width": LARGEST}, "width", "1 to 1000"),
    "no height": ({"height": 0}, "height", "1 to 333"),
    "a huge height": ({"height": LARGEST}, "height", "1 to 333"),
    "too many points": ({"height": 334}, "height", "1 to 333"),
    "no point_step": ({"point_step": 0}, "point_step", "1 or more"),
    "a point_step below a point": ({"point_step": 11}, "fields[2].offset", "4 bytes within"),
    "a huge point_step": ({"point_step": LARGEST}, "row_step", "12884901885 or more"),
    "a huge point_step alone": (
        {"point_step": LARGEST, "row_step": 0}, "data", "25769803770 bytes"),
    "rows that overlap": ({"row_step": 47}, "row_step", "48 or more"),
    "a huge row_step": ({"row_step": LARGEST}, "row_step", "at most the 104 bytes"),
    "a huge row_step of one row": (
        {"row_step": LARGEST, "height": 1}, "row_step", "at most the 104 bytes"),
    "rows beyond the data": ({"row_step": 57}, "data", "105 bytes or more"),
    "one byte too few": ({"data": bytes(103)}, "data", "104 bytes or more"),
    "no data": ({"data": b"", "row_step": 0}, "data", "96 bytes or more"),
    "no fields": ({"fields": []}, "fields", "x, y and z once each"),
    "no z": ({"fields": XYZ[:2]}, "fields", "x, y and z once each"),
    "x twice": ({"fields": [*XYZ, *fields(("x", 12, "float32"))]}, "fields", "once each"),
    "capitals": ({"fields": fields(("X", 0, "int8"), ("Y", 1, "int8"), ("Z", 2, "int8"))},
        "fields", "x, y and z once each"),
    "many fields": ({"fields": XYZ * 86}, "fields", "at most 256"),
    "an offset at the end": ({"fields": [*XYZ[:2], *fields(("z", 13, "float32"))]},
        "fields[2].offset", "4 bytes within the point_step of 16"),
    "two numbers in z": (
        {"fields": [*XYZ[:2], *fields(("z", 8, "int16", 2))]}, "fields[2].count", "1 number"),
    "truth": (
        {"fields": [*XYZ[:2], *fields(("z", 8, "bool"))]}, "fields[2].data_type", "a type of num"),
    "no type": ({"fields": [*XYZ[:2], packed_cloud_pb2.PackedField(name="z")]},
        "fields[2].data_type", "a type of numbers"),
}  # fmt: skip


@pytest.mark.parametrize("case", WRONG)
def test_a_number_that_is_wrong_is_named(case):
    numbers, field, expected = WRONG[case]
    with pytest.raises(InvalidRequestError) as caught:
        parse_packed(cloud(**numbers), LIMITS)
    assert caught.value.field == f"packed_cloud.{field}"
    assert expected in str(caught.value)
    assert len(str(caught.value)) < 400


def test_other_fields_are_not_looked_at():
    others = fields(("rgb", 8, "uint32"), ("_", LARGEST, "int8", 0), ("_", 0, "int8", LARGEST))
    unknown = [packed_cloud_pb2.PackedField(name="i" * 999)] * (MAX_PACKED_FIELDS - 6)
    parse_packed(cloud(fields=[*others, *XYZ, *unknown]), LIMITS)


def request(message: packed_cloud_pb2.PackedCloud, **more) -> pb.SampleRequest:
    return pb.SampleRequest(**{"packed_cloud": message, "sample_counts": [1], **more})


def whole(sent: pb.SampleRequest) -> SampleMessage:
    return SampleMessage(sent, None, sent.ByteSize())


def test_a_packed_cloud_excludes_points():
    both = request(cloud(), points=tensor(np.zeros((6, 3), np.float32)))
    with pytest.raises(InvalidRequestError, match="nothing but points"):
        parse_sample_request(whole(both), LIMITS)


def test_rows_of_an_organized_cloud_count_whether_finite_or_not():
    points = np.arange(18, dtype=np.float32).reshape(6, 3)
    points[[1, 4], 2] = np.nan
    sent = request(packed(list(points.T.copy()), ">", 2, 7), lengths=[2, 4], nonfinite_policy=2)
    decoded = decode_sample_request(parse_sample_request(whole(sent), LIMITS))
    assert decoded.work.clouds.points.tobytes() == points.tobytes()
    sent.nonfinite_policy = 1
    with pytest.raises(InvalidRequestError, match="the first at row 1 of cloud 0") as caught:
        decode_sample_request(parse_sample_request(whole(sent), LIMITS))
    assert caught.value.field == "packed_cloud.data"
    assert "2 rows with NaN" in str(caught.value)


@pytest.mark.parametrize(("dtype", "row"), [("int8", 8 + 12), ("int32", 8 + 24)])
def test_a_response_is_no_larger_than_predicted(dtype, row):
    """Its coordinates may be wider than what was sent."""
    columns = [np.arange(4).astype(dtype) for _ in range(3)]
    sent = request(packed(columns, "<", before=0), return_points=True)
    parsed = parse_sample_request(whole(sent), LIMITS)
    samples = Samples(np.arange(4, dtype=np.int32), None)
    assert response_bytes(parsed, Outcome(samples, 0, 0)) >= 4 * row
    assert len(b"".join(parsed.points.take(samples.rows))) >= 4 * (row - 8)


def test_an_upload_is_as_large_as_its_points():
    message = request(cloud(data=b""))
    assert upload_size(message, LIMITS, 104) == (6, 104)
    points = tensor(np.zeros((6, 3), np.float32))
    points.ClearField("data")
    assert upload_size(pb.SampleRequest(points=points), LIMITS, 104) == (6, 72)
    with pytest.raises(InvalidRequestError, match="at most 103 bytes of points") as caught:
        upload_size(message, LIMITS, 103)
    assert caught.value.field == "packed_cloud"
    with pytest.raises(InvalidRequestError) as caught:
        upload_size(request(cloud()), LIMITS, 104)
    assert caught.value.field == "request.packed_cloud.data"


def test_its_data_is_cut_out_of_the_message_without_a_copy():
    raw = request(cloud(data=bytes(1 << 16)), lengths=[2, 4]).SerializeToString()
    message = sample_request.read_sample_message(raw, 5)
    assert isinstance(message.points_data, memoryview)
    assert message.points_data.obj is raw
    assert not message.request.packed_cloud.data
    parsed = parse_sample_request(message, LIMITS)
    assert parsed.points.data is message.points_data
