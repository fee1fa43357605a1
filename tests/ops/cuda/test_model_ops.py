"""CUDA kernels of gather, scatter, counts and interpolation on the CPU, against the CPU ops."""

from enum import IntEnum

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from tests.support.cuda.on_cpu import call

import farpoint_ops  # noqa: F401  registers the ops

OPS = torch.ops.farpoint
INDEX_TYPES = [np.int32, np.int64]


def values(rng: np.random.Generator, *shape: int, dtype: type = np.float32) -> NDArray[np.floating]:
    return rng.standard_normal(shape).astype(dtype)


def indices(rng: np.random.Generator, high: int, *shape: int, dtype: type) -> NDArray[np.integer]:
    return rng.integers(0, high, shape).astype(dtype)


def tensors(*arrays: NDArray[np.generic]) -> list[torch.Tensor]:
    return [torch.from_numpy(a) for a in arrays]


@pytest.mark.parametrize("index", INDEX_TYPES)
@pytest.mark.parametrize("dtype", [np.uint8, np.float16, np.float32, np.float64])
@pytest.mark.parametrize(
    ("channels", "points", "samples"), [(3, 50, 64), (9, 300, 61), (1, 5000, 7), (2, 70_000, 12)]
)
def test_gather(dtype: type, index: type, channels: int, points: int, samples: int) -> None:
    """Rows held in shared memory, rows read too sparsely, rows too long for it."""
    rng = np.random.default_rng(1)
    features = (values(rng, 2, channels, points) * 50).astype(dtype)
    idx = indices(rng, points, 2, samples, dtype=index)
    out = np.empty((2, channels, samples), dtype)
    shape = (2, channels, points, samples)
    call("gather", features, idx, out, shape, features.itemsize, index is np.int64)
    expected = OPS.gather_points(*tensors(features, idx))
    np.testing.assert_array_equal(out, expected.numpy())


def gather_vectors(
    features: NDArray[np.generic], idx: NDArray[np.integer], weight: NDArray[np.floating] | None
) -> NDArray[np.generic]:
    """`idx` and `weight` are (B, N, K)."""
    out = np.empty((*features.shape[:2], idx.shape[1]), features.dtype)
    shape = (*features.shape, idx.shape[1] * idx.shape[2])
    types = features.itemsize == 8, idx.dtype == np.int64
    call("gather_vectors", features, idx, weight, out, shape, idx.shape[2], *types)
    return out


@pytest.mark.parametrize("index", INDEX_TYPES)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("channels", [1, 4, 7, 16, 67])
def test_gather_of_vectors(channels: int, dtype: type, index: type) -> None:
    """Of bits that no arithmetic may touch, in tiles of 4, 8, 16 and 32 channels."""
    rng = np.random.default_rng(1)
    bits = rng.integers(0, 256, (2, channels, 50, np.dtype(dtype).itemsize), np.uint8)
    idx = indices(rng, 50, 2, 300, 1, dtype=index)
    out = gather_vectors(bits.view(dtype)[..., 0], idx, None)
    expected = OPS.gather_points(*tensors(bits.view(f"i{dtype().itemsize}")[..., 0], idx[..., 0]))
    np.testing.assert_array_equal(out.view(f"i{dtype().itemsize}"), expected.numpy())


class Scatter(IntEnum):
    """`ScatterMethod` of csrc/cuda/gather/scatter.h."""

    AUTO = -1
    ROWS = 0
    VECTORS = 1
    IN_ORDER = 2


def scatter(
    given: NDArray[np.floating],
    idx: NDArray[np.integer],
    n: int,
    method: Scatter,
    seed: int = 0,
    weight: NDArray[np.floating] | None = None,
) -> NDArray[np.floating]:
    """Every element of the output starts as NaN: a method has to write or clear them all."""
    out = np.full((*given.shape[:2], n), np.nan, given.dtype)
    corners = 1 if weight is None else weight.shape[2]
    shape = (*given.shape[:2], n, given.shape[2] * corners)
    wide = given.dtype == np.float64, idx.dtype == np.int64
    call("scatter", given, idx, weight, out, shape, corners, *wide, int(method), seed)
    return out


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("method", Scatter)
@pytest.mark.parametrize("index", INDEX_TYPES)
@pytest.mark.parametrize(
    ("channels", "points", "samples"), [(67, 40, 300), (9, 301, 61), (3, 90, 300)]
)
def test_scatter_sums_integers_exactly_in_any_order(
    channels: int, points: int, samples: int, dtype: type, index: type, method: Scatter
) -> None:
    rng = np.random.default_rng(2)
    given = rng.integers(-9, 9, (2, channels, samples)).astype(dtype)
    idx = indices(rng, points, 2, samples, dtype=index)
    out = scatter(given, idx, points, method, seed=samples)
    np.testing.assert_array_equal(out, OPS.scatter_points(*tensors(given, idx), points).numpy())


def distinct_indices(rng: np.random.Generator, high: int, *shape: int) -> NDArray[np.integer]:
    """Like `indices`, with none twice in a row."""
    return rng.permuted(np.tile(np.arange(high), (shape[0], 1)), axis=1)[:, : shape[1]].copy()


@pytest.mark.parametrize("repeated", [False, True])
@pytest.mark.parametrize("seed", range(5))
def test_rows_of_distinct_indices_are_stored_and_repeated_ones_added(
    seed: int, repeated: bool
) -> None:
    """The second cloud has one index twice, anywhere; the blocks of the first must not care."""
    rng = np.random.default_rng(seed)
    points, samples = int(rng.integers(200, 900)), int(rng.integers(90, 200))
    given = values(rng, 2, 7, samples)
    given[0, :, 0] = -0.0
    idx = distinct_indices(rng, points, 2, samples)
    if repeated:
        first, second = rng.choice(samples, 2, replace=False)
        idx[1, second] = idx[1, first]
    out = scatter(given, idx, points, Scatter.ROWS, seed)
    expected = OPS.scatter_points(*tensors(given, idx), points).numpy()
    np.testing.assert_array_equal(out.view(np.int32), expected.view(np.int32))


def test_rows_too_long_for_shared_memory_are_left_to_another_method() -> None:
    rng = np.random.default_rng(4)
    given = rng.integers(-9, 9, (1, 9, 60_032)).astype(np.float32)
    idx = indices(rng, 60_000, 1, 60_032, dtype=np.int32)
    with pytest.raises(NotImplementedError):
        scatter(given, idx, 60_000, Scatter.ROWS)
    expected = OPS.scatter_points(*tensors(given, idx), 60_000).numpy()
    np.testing.assert_array_equal(scatter(given, idx, 60_000, Scatter.AUTO), expected)


@pytest.mark.parametrize("index", INDEX_TYPES)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(
    ("channels", "points", "samples"), [(19, 40, 1100), (9, 5000, 61), (2, 70_000, 900), (1, 1, 70)]
)
def test_scatter_in_order_has_the_bits_of_the_cpu(
    channels: int, points: int, samples: int, dtype: type, index: type
) -> None:
    """Many samples of a point, few, rows in ranges, all samples of one point."""
    rng = np.random.default_rng(3)
    given = values(rng, 2, channels, samples, dtype=dtype)
    idx = indices(rng, points, 2, samples, dtype=index)
    idx[:, 40:90] = idx[:, 39:40]
    expected = OPS.scatter_points(*tensors(given, idx), points)
    out = scatter(given, idx, points, Scatter.IN_ORDER)
    np.testing.assert_array_equal(out, expected.numpy())


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(("points", "corners"), [(40, 3), (60_000, 3), (40, 5)])
def test_interpolate_scatter_in_order_has_the_bits_of_the_cpu(
    points: int, corners: int, dtype: type
) -> None:
    rng = np.random.default_rng(5)
    given = values(rng, 2, 9, 1100, dtype=dtype)
    idx = indices(rng, points, 2, 1100, corners, dtype=np.int64)
    weight = values(rng, 2, 1100, corners, dtype=dtype)
    expected = OPS.interpolate_scatter(*tensors(given, idx, weight), points)
    out = scatter(given, idx, points, Scatter.IN_ORDER, weight=weight)
    np.testing.assert_array_equal(out, expected.numpy())


@pytest.mark.parametrize("index", INDEX_TYPES)
def test_count_points(index: type) -> None:
    assignment = (np.random.default_rng(8).integers(-1, 20, (3, 500))).astype(index)
    counts = np.zeros((3, 20), np.int32)
    call("count", assignment, index is np.int64, counts, 3, 500, 20)
    expected = OPS.count_points(torch.from_numpy(assignment), 20)
    np.testing.assert_array_equal(counts, expected.numpy())


@pytest.mark.parametrize("index", INDEX_TYPES)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(
    ("channels", "columns", "corners"),
    [(19, 40, 3), (9, 4000, 3), (1, 40, 3), (2, 60_000, 3), (19, 40, 4)],
)
def test_interpolate_and_its_partners(
    dtype: type, index: type, channels: int, columns: int, corners: int
) -> None:
    """Rows in shared memory, at once or in turn, or too long for it; another number of corners."""
    rng = np.random.default_rng(9)
    points = 1100
    features = values(rng, 2, channels, columns, dtype=dtype)
    weight = values(rng, 2, points, corners, dtype=dtype)
    given = values(rng, 2, channels, points, dtype=dtype)
    idx = indices(rng, columns, 2, points, corners, dtype=index)
    shape, types = (2, channels, points, columns, corners), (dtype is np.float64, index is np.int64)

    expected = OPS.interpolate(*tensors(features, idx, weight)).numpy()
    np.testing.assert_array_equal(gather_vectors(features, idx, weight), expected)
    if corners == 3 and columns * features.itemsize <= 232_448:
        out = np.full_like(given, np.nan)
        call("interpolate", features, idx, weight, out, shape, *types)
        np.testing.assert_array_equal(out, expected)

    expected = OPS.interpolate_scatter(*tensors(given, idx, weight), columns).numpy()
    for method in (Scatter.AUTO, Scatter.VECTORS):
        spread = scatter(given, idx, columns, method, weight=weight)
        np.testing.assert_allclose(spread, expected, rtol=1e-4, atol=1e-4)

    dots = np.full_like(weight, np.nan)
    call("interpolate_dot", given, features, idx, dots, shape, *types)
    expected = OPS.interpolate_dot(*tensors(given, features, idx))
    np.testing.assert_array_equal(dots, expected.numpy())


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("points", [1100, 2500])
def test_interpolate_dot_of_large_batches(points: int, dtype: type) -> None:
    """Several points of a thread, in the last tile not all of them."""
    rng = np.random.default_rng(10)
    features, given = values(rng, 9, 5, 30, dtype=dtype), values(rng, 9, 5, points, dtype=dtype)
    idx = indices(rng, 30, 9, points, 3, dtype=np.int32)
    dots = np.full(idx.shape, np.nan, dtype)
    shape = (9, 5, points, 30, 3)
    call("interpolate_dot", given, features, idx, dots, shape, dtype is np.float64, False)
    expected = OPS.interpolate_dot(*tensors(given, features, idx))
    np.testing.assert_array_equal(dots, expected.numpy())


def test_an_index_out_of_range_stops_the_kernel() -> None:
    features, idx = np.zeros((1, 1, 4), np.float32), np.array([[4]])
    with pytest.raises(RuntimeError, match="idx: an index is out of range"):
        call("gather", features, idx, np.empty((1, 1, 1), np.float32), (1, 1, 4, 1), 4, True)
