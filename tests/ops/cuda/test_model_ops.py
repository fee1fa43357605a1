"""CUDA kernels other than sampling emulated on the CPU, against the CPU ops bit for bit."""

import ctypes
from enum import IntEnum

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from tests.support.cuda.on_cpu import SearchBatch, call, library, search_batch
from tests.support.cuda.traffic import on_processors

import farpoint_ops

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


class Scatter(IntEnum):
    """`ScatterMethod` of csrc/cuda/gather/scatter.h."""

    AUTO = -1
    ROWS = 0
    VECTORS = 1
    ATOMIC = 2


def scatter(
    given: NDArray[np.floating], idx: NDArray[np.integer], n: int, method: Scatter, seed: int = 0
) -> NDArray[np.floating]:
    """Every element of the output starts as NaN: a method has to write or clear them all."""
    out = np.full((*given.shape[:2], n), np.nan, given.dtype)
    shape = (*given.shape[:2], n, given.shape[2])
    wide = given.dtype == np.float64, idx.dtype == np.int64
    call("scatter", given, idx, out, shape, *wide, int(method), seed)
    return out


# Vector reductions add float32 alone.
SUMS = [(dtype, m) for dtype in (np.float32, np.float64) for m in Scatter]
SUMS.remove((np.float64, Scatter.VECTORS))


@pytest.mark.parametrize(("dtype", "method"), SUMS)
@pytest.mark.parametrize("index", INDEX_TYPES)
@pytest.mark.parametrize(("channels", "points", "samples"), [(67, 40, 300), (9, 301, 61)])
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


@pytest.mark.parametrize(
    ("batch", "channels", "points", "samples", "method"),
    [
        (32, 64, 4096, 32_768, Scatter.ROWS),
        (2, 1, 4096, 1024, Scatter.ROWS),
        (1, 1, 4096, 1024, Scatter.ATOMIC),
        (1, 64, 56_000, 14_000, Scatter.ROWS),
        (1, 64, 80_000, 1_280_000, Scatter.VECTORS),
        (1, 64, 80_000, 20_000, Scatter.ATOMIC),
        (1, 7, 80_000, 1_280_000, Scatter.ATOMIC),
    ],
)
def test_scatter_rule(
    batch: int, channels: int, points: int, samples: int, method: Scatter
) -> None:
    shape = (ctypes.c_int64 * 4)(batch, channels, points, samples)
    assert Scatter(library().model_scatter_method(shape, 0)) is method


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_sorted_scatter_adds_in_the_order_of_the_cpu(dtype: type) -> None:
    rng = np.random.default_rng(3)
    given, idx = values(rng, 2, 19, 300, dtype=dtype), indices(rng, 40, 2, 300, dtype=np.int64)
    order = np.argsort(idx, axis=1, kind="stable")
    ascending = np.take_along_axis(idx, order, axis=1)
    out = np.zeros((2, 19, 40), dtype)
    shape = (2, 19, 40, 300)
    call("scatter_sorted", given, order, ascending, out, shape, dtype is np.float64)
    np.testing.assert_array_equal(out, OPS.scatter_points(*tensors(given, idx), 40).numpy())


def cloud(kind: str, rng: np.random.Generator, n: int) -> NDArray[np.float32]:
    """Two clouds (2, n, 3)."""
    points = rng.integers(0, 4, (2, n, 3)).astype(np.float32) if kind == "ties" else None
    points = values(rng, 2, n, 3) if points is None else points
    if kind == "holes":
        points[rng.random((2, n, 3)) < 0.1] = rng.choice([np.nan, np.inf, -np.inf])
    if kind == "huge":
        points *= 1e25
    return points


KINDS = ["random", "ties", "holes", "huge"]


def check_knn(
    kind: str, n: int, m: int, k: int, lengths: list[int] | None, indexed: bool = False
) -> None:
    rng = np.random.default_rng(k)
    xyz, queries = cloud(kind, rng, n), cloud(kind, rng, m)
    sizes = None if lengths is None else np.array(lengths)
    rows, squared = np.empty((2, m, k), np.int32), np.empty((2, m, k), np.float32)
    call("knn", search_batch(xyz, queries, sizes, indexed), k, rows, squared, False)
    given = None if sizes is None else torch.from_numpy(sizes)
    expected = farpoint_ops.knn(*tensors(xyz, queries), k, lengths=given)
    np.testing.assert_array_equal(rows, expected[0].numpy())
    np.testing.assert_array_equal(squared, expected[1].numpy())


@pytest.mark.parametrize("lengths", [None, [150, 290], [1, 40]])
@pytest.mark.parametrize("k", [1, 20, 33, 150, 400])
@pytest.mark.parametrize("kind", KINDS)
def test_knn(kind: str, k: int, lengths: list[int] | None) -> None:
    check_knn(kind, 300, 13, k, lengths)


@pytest.mark.parametrize("kind", KINDS)
def test_knn_in_several_tiles(kind: str) -> None:
    check_knn(kind, 2500, 3, 16, None)


@pytest.mark.parametrize("lengths", [None, [1, 1290]])
@pytest.mark.parametrize("k", [1, 20, 150])
@pytest.mark.parametrize("kind", KINDS)
def test_knn_in_an_index(kind: str, k: int, lengths: list[int] | None) -> None:
    check_knn(kind, 1300, 5, k, lengths, indexed=True)


@pytest.mark.parametrize("kind", ["ties", "holes"])
def test_knn_in_an_index_of_two_groups(kind: str) -> None:
    """The second has the last octant, and so the nearest points of some queries."""
    check_knn(kind, 36_000, 24, 16, None, indexed=True)


def check_ball_query(
    kind: str, n: int, k: int, radius: float, inner: float, indexed: bool = False
) -> None:
    rng = np.random.default_rng(k)
    xyz, centers = cloud(kind, rng, n), cloud(kind, rng, 13)
    sizes = np.array([n, 41])
    rows, found = np.empty((2, 13, k), np.int32), np.empty((2, 13), np.int32)
    with np.errstate(over="ignore"):
        limits = [float(np.float32(r) * np.float32(r)) for r in (inner * radius, radius)]
    call("ball_query", search_batch(xyz, centers, sizes, indexed), *limits, k, rows, found)
    expected = farpoint_ops.ball_query(
        *tensors(xyz, centers),
        *(radius, k),
        min_radius=inner * radius,
        lengths=torch.from_numpy(sizes),
    )
    np.testing.assert_array_equal(rows, expected[0].numpy())
    np.testing.assert_array_equal(found, expected[1].numpy())


@pytest.mark.parametrize("inner", [0.0, 0.5])
@pytest.mark.parametrize("radius", [1.0, 0.3, 1e-6, 1e30])
@pytest.mark.parametrize("k", [1, 8, 70])
@pytest.mark.parametrize("kind", KINDS)
def test_ball_query(kind: str, k: int, radius: float, inner: float) -> None:
    check_ball_query(kind, 300, k, radius, inner)


@pytest.mark.parametrize(("radius", "inner"), [(1.0, 0.5), (0.3, 0.0), (1e30, 0.0)])
@pytest.mark.parametrize("k", [8, 150])
@pytest.mark.parametrize("kind", KINDS)
def test_ball_query_in_an_index(kind: str, k: int, radius: float, inner: float) -> None:
    """Some rows are looked at in order first, then leaves if the ball is not full."""
    check_ball_query(kind, 1300, k, radius, inner, indexed=True)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("indexed", [False, True])
def test_nearest_sample(indexed: bool, kind: str) -> None:
    rng = np.random.default_rng(4)
    xyz, samples = cloud(kind, rng, 700), cloud(kind, rng, 1200)
    lengths, sample_lengths = np.array([0, 600]), np.array([1200, 33])
    rows, squared = np.empty((2, 700), np.int32), np.empty((2, 700), np.float32)
    batch = search_batch(samples, xyz, sample_lengths, indexed)
    call("nearest", batch, lengths, rows, squared)
    limits = tensors(lengths, sample_lengths)
    expected = OPS.nearest_sample(*tensors(xyz, samples), *limits)
    np.testing.assert_array_equal(rows, expected[0].numpy())
    np.testing.assert_array_equal(squared, expected[1].numpy())


@pytest.mark.parametrize("points", [60, 7])
@pytest.mark.parametrize("kind", KINDS)
def test_knn_in_float64(kind: str, points: int) -> None:
    rng = np.random.default_rng(6)
    xyz, queries = (cloud(kind, rng, n).astype(np.float64) for n in (points, 9))
    rows, squared = np.empty((2, 9, 12), np.int32), np.empty((2, 9, 12), np.float64)
    call("knn", search_batch(xyz, queries, None), 12, rows, squared, True)
    expected = farpoint_ops.knn(*tensors(xyz, queries), 12)
    np.testing.assert_array_equal(rows, expected[0].numpy())
    np.testing.assert_array_equal(squared, expected[1].numpy())


class Search(IntEnum):
    """`Search` of csrc/cuda/neighbors/neighbors.h."""

    KNN = 0
    BALL = 1
    NEAREST = 2


def sizes_alone(batch: int, points: int, queries: int) -> SearchBatch:
    return SearchBatch(None, None, None, batch, points, queries, None)


@pytest.mark.parametrize(
    ("search", "batch", "points", "queries", "wanted"),
    [
        (Search.KNN, 1, 1024, 1024, False),
        (Search.KNN, 1, 16_384, 1024, False),
        (Search.KNN, 1, 16_384, 16_384, True),
        (Search.KNN, 1, 120_000, 1024, True),
        (Search.KNN, 32, 16_384, 4096, True),
        (Search.KNN, 1, 0, 5, False),
        (Search.BALL, 1, 16_384, 1024, False),
        (Search.BALL, 1, 16_384, 16_384, True),
        (Search.NEAREST, 1, 1024, 16_384, False),
        (Search.NEAREST, 1, 16_384, 120_000, True),
    ],
)
def test_index_rule(search: Search, batch: int, points: int, queries: int, wanted: bool) -> None:
    with on_processors(132):
        sizes = ctypes.byref(sizes_alone(batch, points, queries))
        assert bool(library().model_wants_index(sizes, int(search))) is wanted


@pytest.mark.parametrize("batch", [1, 32])
@pytest.mark.parametrize("points", [4096, 120_000])
def test_an_index_takes_at_most_40_bytes_a_point(batch: int, points: int) -> None:
    with on_processors(132):
        size = library().model_index_bytes(ctypes.byref(sizes_alone(batch, points, 1)))
    assert size <= 40 * batch * points


@pytest.mark.parametrize("kind", KINDS)
def test_searches_in_float64(kind: str) -> None:
    rng = np.random.default_rng(5)
    xyz, others = (cloud(kind, rng, n).astype(np.float64) for n in (300, 40))
    sizes, asked = np.array([300, 41]), np.array([40, 7])
    for radius, inner, k in ((1.0, 0.5, 8), (1e30, 0.0, 70), (1e-6, 0.0, 1)):
        rows, found = np.empty((2, 40, k), np.int32), np.empty((2, 40), np.int32)
        limits = np.array([inner, radius]) ** 2
        call("ball_query_wide", search_batch(xyz, others, sizes), limits, k, rows, found)
        expected = OPS.ball_query(*tensors(xyz, others), radius, k, *tensors(sizes), inner)
        np.testing.assert_array_equal(rows, expected[0].numpy())
        np.testing.assert_array_equal(found, expected[1].numpy())
    rows, squared = np.empty((2, 40), np.int32), np.empty((2, 40))
    call("nearest_wide", search_batch(xyz, others, sizes), asked, rows, squared)
    expected = OPS.nearest_sample(*tensors(others, xyz, asked, sizes))
    np.testing.assert_array_equal(rows, expected[0].numpy())
    np.testing.assert_array_equal(squared, expected[1].numpy())


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
    """Rows of features in shared memory, at once or in turn; too few, too long; other corners."""
    rng = np.random.default_rng(9)
    points = 1100
    features = values(rng, 2, channels, columns, dtype=dtype)
    weight = values(rng, 2, points, corners, dtype=dtype)
    given = values(rng, 2, channels, points, dtype=dtype)
    idx = indices(rng, columns, 2, points, corners, dtype=index)
    shape, types = (2, channels, points, columns, corners), (dtype is np.float64, index is np.int64)

    out = np.full_like(given, np.nan)
    call("interpolate", features, idx, weight, out, shape, *types)
    np.testing.assert_array_equal(out, OPS.interpolate(*tensors(features, idx, weight)).numpy())

    spread = np.full_like(features, np.nan)
    call("interpolate_scatter", given, idx, weight, spread, shape, *types)
    expected = OPS.interpolate_scatter(*tensors(given, idx, weight), columns)
    np.testing.assert_allclose(spread, expected.numpy(), rtol=1e-4, atol=1e-4)

    dots = np.full_like(weight, np.nan)
    call("interpolate_dot", given, features, idx, dots, shape, *types)
    expected = OPS.interpolate_dot(*tensors(given, features, idx))
    np.testing.assert_array_equal(dots, expected.numpy())


def test_an_index_out_of_range_stops_the_kernel() -> None:
    features, idx = np.zeros((1, 1, 4), np.float32), np.array([[4]])
    with pytest.raises(RuntimeError, match="idx: an index is out of range"):
        call("gather", features, idx, np.empty((1, 1, 1), np.float32), (1, 1, 4, 1), 4, True)
