"""The brute-force CUDA sampling kernel emulated on the CPU, against the CPU ops bit for bit."""

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from tests.support.cuda.on_cpu import BruteFpsBatch, call, pointer

import farpoint_ops

TYPES = [np.float32, np.float64]
KINDS = ["random", "ties", "holes", "huge", "nothing finite"]


def cloud(kind: str, rng: np.random.Generator, n: int, d: int) -> NDArray[np.float64]:
    points = rng.standard_normal((n, d))
    if kind == "ties":
        points = rng.integers(0, 3, (n, d)).astype(np.float64)
    if kind == "holes":
        points[rng.random((n, d)) < 0.4 / d] = rng.choice([np.nan, np.inf, -np.inf])
    if kind == "huge":
        points *= 1e25
    if kind == "nothing finite":
        points[:, 0] = np.nan
    return points


def outputs(m: int, dtype: type) -> tuple[NDArray[np.int32], NDArray[np.floating]]:
    return np.full(m, -7, np.int32), np.full(m, -7, dtype)


def batch_of(
    values: NDArray[np.floating], indices: NDArray[np.int32], distances: NDArray[np.floating]
) -> BruteFpsBatch:
    batch = BruteFpsBatch()
    batch.values, batch.distances = pointer(values), pointer(distances)
    batch.layout.indices, batch.layout.samples = pointer(indices), len(indices)
    batch.wide = values.dtype == np.float64
    return batch


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("d", [1, 3, 8, 64])
def test_a_ragged_batch(d: int, kind: str, dtype: type) -> None:
    rng = np.random.default_rng(d)
    points = cloud(kind, rng, 700, d).astype(dtype)
    offsets, slots = np.array([0, 31, 700]), np.array([0, 31, 111])
    start = np.array([30, 9])
    indices, distances = outputs(111, dtype)
    by_dimension = np.ascontiguousarray(points.T)
    batch = batch_of(by_dimension, indices, distances)
    batch.dims = d
    layout = batch.layout
    layout.offsets, layout.sample_offsets, layout.start = map(pointer, (offsets, slots, start))
    layout.rows, layout.clouds, layout.max_points, layout.max_samples = 700, 2, 669, 80
    call("fps_brute_force", batch)
    expected = torch.ops.farpoint.furthest_point_sample_ragged(
        *(torch.from_numpy(a) for a in (points, offsets, slots, start)), 111, 669, 80, True
    )
    np.testing.assert_array_equal(indices, expected[0].numpy())
    np.testing.assert_array_equal(distances, expected[1].numpy())


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("ties", [False, True])
def test_matrices_of_distances(ties: bool, dtype: type) -> None:
    rng = np.random.default_rng(2)
    matrices = rng.integers(0, 4, (2, 90, 90)) if ties else rng.random((2, 90, 90))
    matrices = matrices.astype(dtype)
    matrices[0, 3, 40:50] = np.nan
    start, lengths = np.array([3, 20]), np.array([90, 61])
    indices, distances = outputs(122, dtype)
    batch = batch_of(matrices, indices, distances)
    batch.matrix = True
    layout = batch.layout
    layout.start, layout.lengths = map(pointer, (start, lengths))
    layout.rows, layout.clouds, layout.max_points, layout.max_samples = 180, 2, 90, 61
    call("fps_brute_force", batch)
    expected = farpoint_ops.farthest_point_sample_with_distances(
        torch.from_numpy(matrices), 61, start=[3, 20], lengths=[90, 61], return_distances=True
    )
    np.testing.assert_array_equal(indices.reshape(2, 61), expected[0].numpy())
    np.testing.assert_array_equal(distances.reshape(2, 61), expected[1].numpy())
