"""CUDA searches emulated on the CPU, with and without an index, against the CPU ops bit for bit."""

import ctypes

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from tests.support.cuda.on_cpu import SearchBatch, call, library, on_processors, search_batch

import farpoint_ops

OPS = torch.ops.farpoint


def values(rng: np.random.Generator, *shape: int) -> NDArray[np.float32]:
    return rng.standard_normal(shape).astype(np.float32)


def tensors(*arrays: NDArray[np.generic]) -> list[torch.Tensor]:
    return [torch.from_numpy(a) for a in arrays]


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


def sizes_alone(batch: int, points: int, queries: int) -> SearchBatch:
    return SearchBatch(None, None, None, batch, points, queries, None)


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
