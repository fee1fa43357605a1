"""Every array that a caller may hold reaches the wire as the numbers it stands for."""

import numpy as np
import pytest

from farpoint._rpcs.sample import SampleRpc
from farpoint.errors import InvalidArgumentError
from farpoint.v1 import tensor_pb2 as pb


def sent(points):
    """Type name and values of the points in the request."""
    tensor = SampleRpc(points, 1).request.points
    name = pb.DataType.Name(tensor.data_type).removeprefix("DATA_TYPE_").lower()
    values = np.frombuffer(tensor.data, np.dtype(name).newbyteorder("<"))
    return name, values.reshape(tuple(tensor.shape))


def numbers(dtype="<f4"):
    return np.arange(60).reshape(20, 3).astype(dtype)


LAYOUTS = {
    "plain": lambda a: a,
    "big-endian": lambda a: a.astype(a.dtype.newbyteorder(">")),
    "fortran": np.asfortranarray,
    "columns of a wider array": lambda a: np.hstack([a, a])[:, :3],
    "every other row": lambda a: np.repeat(a, 2, axis=0)[::2],
    "reversed twice": lambda a: a[::-1, ::-1].copy()[::-1, ::-1],
    "read-only": lambda a: np.frombuffer(a.tobytes(), a.dtype).reshape(a.shape),
    "unaligned": lambda a: np.frombuffer(b"\0" + a.tobytes(), a.dtype, offset=1).reshape(a.shape),
    "nested lists": lambda a: a.tolist(),
}


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("dtype", ["f2", "f4", "f8"])
def test_layouts_of_floats(layout, dtype):
    name, values = sent(LAYOUTS[layout](numbers(dtype)))
    expected = "float64" if layout == "nested lists" else np.dtype(dtype).name
    assert name == expected
    assert np.array_equal(values, numbers())


@pytest.mark.parametrize("layout", LAYOUTS)
def test_layouts_in_a_batch(layout):
    _name, values = sent([LAYOUTS[layout](numbers()), np.asarray(LAYOUTS[layout](-numbers()))])
    assert np.array_equal(values, np.vstack([numbers(), -numbers()]))


@pytest.mark.parametrize("dtype", ["i1", "u1", ">i2", "u2"])
def test_small_integers_are_exact_in_float32(dtype):
    assert sent(numbers(dtype))[0] == "float32"
    assert np.array_equal(sent(numbers(dtype))[1], numbers())


@pytest.mark.parametrize("dtype", ["i4", ">u4", "i8", "u8"])
def test_wide_integers_are_exact_in_float64(dtype):
    points = numbers(dtype) + np.array(2**31 - 100, dtype)
    assert sent(points)[0] == "float64"
    assert np.array_equal(sent(points)[1].astype(dtype), points)


def test_integers_beyond_float64_are_refused():
    with pytest.raises(InvalidArgumentError, match=r"2\^53"):
        sent(np.full((2, 3), 2**53 + 1))
    sent(np.full((2, 3), -(2**53)))


@pytest.mark.parametrize(
    ("types", "widest"),
    [(("f2", "f4"), "float32"), (("f4", "f8"), "float64"), (("f4", "i4"), "float64")],
)
def test_a_batch_of_several_types_takes_the_widest(types, widest):
    name, values = sent([numbers(t) for t in types])
    assert name == widest
    assert np.array_equal(values, np.vstack([numbers(), numbers()]))


class OnlyDLPack:
    """An array of a library without numpy support."""

    def __init__(self, array):
        self.array = array

    def __dlpack__(self, **options):
        return self.array.__dlpack__(**options)

    def __dlpack_device__(self):
        return self.array.__dlpack_device__()


class OnlyArray:
    """A data frame."""

    def __init__(self, array):
        self.array = array

    def __array__(self, dtype=None, copy=None):
        return self.array


@pytest.mark.parametrize("kind", [OnlyDLPack, OnlyArray])
def test_array_protocols(kind):
    assert np.array_equal(sent(kind(numbers()))[1], numbers())
    assert np.array_equal(sent([kind(numbers())] * 2)[1], np.vstack([numbers()] * 2))
    assert np.array_equal(sent(kind(np.stack([numbers()] * 2)))[1], np.vstack([numbers()] * 2))


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64"])
def test_torch_tensors(dtype):
    torch = pytest.importorskip("torch")
    tensor = torch.arange(60).reshape(20, 3).to(getattr(torch, dtype)).requires_grad_()
    name, values = sent(tensor)
    assert name == ("float32" if dtype == "bfloat16" else dtype)
    assert np.array_equal(values, numbers())
    assert np.array_equal(sent(tensor.T.contiguous().T)[1], numbers())
    assert np.array_equal(sent([tensor, tensor])[1], np.vstack([numbers()] * 2))


def test_torch_counts_starts_and_attributes():
    torch = pytest.importorskip("torch")
    rpc = SampleRpc(
        [numbers()] * 2, torch.tensor([3, 4]), torch.ones(2, 20), torch.tensor(5), "reject"
    )
    assert list(rpc.request.sample_counts) == [3, 4]
    assert list(rpc.request.start_indices) == [5]
    assert rpc.batch.attributes[1].shape == (20,)


def test_masked_values_are_refused_and_an_empty_mask_is_not():
    masked = np.ma.masked_array(numbers(), mask=False)
    assert np.array_equal(sent(masked)[1], numbers())
    masked[2, 1] = np.ma.masked
    with pytest.raises(InvalidArgumentError, match="masked"):
        sent(masked)


@pytest.mark.parametrize("dtype", ["bool", "complex64", "S4", "object", "longdouble", "M8[s]"])
def test_other_types_are_refused(dtype):
    with pytest.raises(InvalidArgumentError, match="points must be float16") as raised:
        sent(np.zeros((4, 3), dtype))
    assert raised.value.field == "points.data_type"
