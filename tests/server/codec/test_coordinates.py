"""Coordinates in each type as float32, and errors of rows that are not finite."""

import numpy as np
import pytest

from farpoint.v1 import tensor_pb2
from farpoint_server.codec.coordinates import check_finite, to_float32
from farpoint_server.codec.tensors import TensorView, parse_tensor, type_name
from farpoint_server.errors import InvalidRequestError

FLOAT64, BFLOAT16 = tensor_pb2.DATA_TYPE_FLOAT64, tensor_pb2.DATA_TYPE_BFLOAT16
FLOAT16, FLOAT32 = tensor_pb2.DATA_TYPE_FLOAT16, tensor_pb2.DATA_TYPE_FLOAT32
NAN = np.nan


def view(array: np.ndarray, data_type: int) -> TensorView:
    return TensorView(data_type, array.shape, array.tobytes())


HALVES = np.arange(3 << 16, dtype=np.uint32).astype(np.uint16).reshape(-1, 3)


@pytest.mark.parametrize(
    ("data_type", "expected"),
    [
        (BFLOAT16, (HALVES.astype(np.uint32) << 16).view(np.float32)),
        (FLOAT16, HALVES.view(np.float16).astype(np.float32)),
    ],
)
def test_every_half_becomes_the_same_number_in_float32(data_type, expected):
    widened, origins = to_float32(view(HALVES, data_type), np.array([len(HALVES)]))
    assert origins is None
    assert widened.dtype == np.float32
    np.testing.assert_array_equal(widened.view(np.uint32), expected.view(np.uint32))


def test_float32_is_not_copied_on_its_way_to_the_engine():
    sent = view(np.ones((9, 3), np.float32), FLOAT32)
    points, _ = to_float32(sent, np.array([9]))
    assert np.shares_memory(points, np.frombuffer(sent.data, np.uint8))


def test_float64_of_one_cloud_is_shifted_to_its_first_row():
    points = np.array([[1e7, 2e7, 3e7], [1e7 + 0.5, 2e7 + 0.25, 3e7 + 0.125]])
    narrowed, origins = to_float32(view(points, FLOAT64), np.array([2]))
    assert origins.tolist() == [[1e7, 2e7, 3e7]]
    assert narrowed.tolist() == [[0, 0, 0], [0.5, 0.25, 0.125]]
    assert narrowed.dtype == np.float32


def test_each_cloud_has_an_origin_of_its_own_and_zero_where_no_row_is_finite():
    points = np.array([[NAN, 0, 0], [5, 6, 7], [8, 9, 9], [NAN, 1, 1], [1, 2, NAN], [4, 4, 4]])
    narrowed, origins = to_float32(view(points, FLOAT64), np.array([3, 2, 1]))
    assert origins.tolist() == [[5, 6, 7], [0, 0, 0], [4, 4, 4]]
    assert narrowed[1:3].tolist() == [[0, 0, 0], [3, 3, 2]]
    assert narrowed[5].tolist() == [0, 0, 0]
    assert narrowed[4, :2].tolist() == [1, 2]


def test_what_is_beyond_float32_becomes_infinite():
    points = np.array([[0.0, 0, 0], [1e300, 0, 0]])
    narrowed, _ = to_float32(view(points, FLOAT64), np.array([2]))
    assert np.isinf(narrowed[1, 0])
    with pytest.raises(InvalidRequestError, match="1 rows with NaN, infinity or values beyond fl"):
        check_finite(narrowed, np.array([2]))


ROWS = np.array([[0, 0, 0], [1, 1, 1], [NAN, 2, 2], [3, 3, 3], [4, np.inf, 4], [5, 5, 5]], "f4")


@pytest.mark.parametrize(
    ("lengths", "place"),
    [([6], "row 2 of cloud 0"), ([2, 4], "row 0 of cloud 1"), ([3, 3], "row 2 of cloud 0")],
)
def test_the_first_row_that_is_not_finite_is_named(lengths, place):
    with pytest.raises(InvalidRequestError) as caught:
        check_finite(ROWS, np.array(lengths), None)
    assert caught.value.field == "points.data"
    text = f"2 rows with NaN, infinity or values beyond float32, the first at {place}: (nan, 2.0"
    assert text in str(caught.value)
    check_finite(ROWS[:2], np.array([2]), None)


@pytest.mark.parametrize(
    ("lengths", "needed", "wrong"),
    [
        ([6], [4], None),
        ([6], [5], "sample_counts[0]"),
        ([3, 3], [2, 2], None),
        ([3, 3], [2], None),
        ([3, 3], [2, 3], "sample_counts[1]"),
        ([3, 3], [3, 2], "sample_counts[0]"),
    ],
)
def test_as_many_finite_rows_as_samples_must_be_there(lengths, needed, wrong):
    arguments = ROWS, np.array(lengths), np.array(needed)
    if wrong is None:
        check_finite(*arguments)
        return
    with pytest.raises(
        InvalidRequestError, match=r"the points of cloud \d that are finite"
    ) as caught:
        check_finite(*arguments)
    assert caught.value.field == wrong


@pytest.mark.parametrize(("name", "size"), [("BFLOAT16", 12), ("FLOAT64", 48), ("BOOL", 6)])
def test_a_tensor_has_as_many_bytes_as_its_type_and_shape_say(name, size):
    data_type = tensor_pb2.DataType.Value(f"DATA_TYPE_{name}")
    good = tensor_pb2.Tensor(data_type=data_type, shape=[2, 3], data=bytes(size))
    assert parse_tensor(good, "t").shape == (2, 3)
    for wrong in (size - 1, size + 1):
        good.data = bytes(wrong)
        with pytest.raises(InvalidRequestError, match=f"{size} bytes for .2, 3. of DATA_TYPE_"):
            parse_tensor(good, "t")


def test_a_type_that_is_not_in_the_contract_is_named_by_its_number():
    assert type_name(1) == "DATA_TYPE_FLOAT32"
    assert type_name(99) == "99"
    for data_type in (0, 99):
        with pytest.raises(InvalidRequestError, match="a DataType of the contract"):
            parse_tensor(tensor_pb2.Tensor(data_type=data_type, shape=[0]), "t")


def test_rows_keep_their_type():
    values = np.arange(12, dtype="<i2").reshape(4, 3)
    chunks = TensorView(6, (4, 3), values.tobytes()).take(np.array([3, 0], np.int32))
    taken = tensor_pb2.Tensor.FromString(b"".join(chunks))
    assert (taken.data_type, list(taken.shape)) == (6, [2, 3])
    assert taken.data == values[[3, 0]].tobytes()
