"""CPU emulation of the CUDA kernels of csrc/cuda: compiled by g++, every CUDA thread a fiber.

Nothing is rewritten: tests/ops/cuda/model stands in for the CUDA headers, so what runs here is the
source that nvcc compiles. What is left for a GPU is timing, memory ordering and the hardware.
"""

import ctypes
from collections.abc import Iterator
from contextlib import contextmanager
from enum import IntEnum
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tests.support.cuda.model import library

ALIGNED = 256  # bytes, as torch's allocator does at least


class Method(IntEnum):
    """`FpsMethod` of csrc/cuda/fps/fps.h."""

    AUTO = 0
    GRID = 1
    BLOCK = 2
    TREE = 3
    PARTITIONED = 4


class FpsBatch(ctypes.Structure):
    """`FpsBatch` of csrc/cuda/fps/fps.h."""

    _fields_ = [
        *((n, ctypes.c_void_p) for n in ("xyz", "offsets", "lengths", "sample_offsets", "start")),
        ("radius", ctypes.c_void_p),
        ("indices", ctypes.c_void_p),
        ("distances", ctypes.c_void_p),
        *((n, ctypes.c_int64) for n in ("rows", "samples")),
        *((n, ctypes.c_int) for n in ("clouds", "max_points", "max_samples")),
    ]


class BruteFpsBatch(ctypes.Structure):
    """`BruteFpsBatch` of csrc/cuda/fps/brute_force.h."""

    _fields_ = [
        ("layout", FpsBatch),
        ("values", ctypes.c_void_p),
        ("distances", ctypes.c_void_p),
        ("dims", ctypes.c_int),
        ("matrix", ctypes.c_bool),
        ("wide", ctypes.c_bool),
    ]


class TreeShape(NamedTuple):
    """`TreeShape` of csrc/cuda/fps/fps.h."""

    warps: int
    levels: int
    in_shared: bool
    sorts_in_block: bool
    partitions: int = 1


class SearchBatch(ctypes.Structure):
    """`SearchBatch` of csrc/cuda/neighbors/neighbors.h."""

    _fields_ = [
        *((n, ctypes.c_void_p) for n in ("xyz", "queries", "lengths")),
        ("batch", ctypes.c_int64),
        *((n, ctypes.c_int) for n in ("points", "queries_per_cloud")),
        ("index", ctypes.c_void_p),
    ]


def pointer(array: NDArray[np.generic] | None) -> int | None:
    """Address of a contiguous array, or null."""
    return None if array is None else array.ctypes.data


def check(code: int) -> None:
    """Raise what a kernel of the model reported."""
    if code == -1:
        raise NotImplementedError("the method cannot run this batch")
    if code:
        raise RuntimeError(library().model_failure().decode() or f"CUDA error {code}")


def call(name: str, *arguments: object) -> None:
    """Run `model_<name>`: arrays and None as pointers, tuples of integers as structs of int64."""
    converted: list[object] = []
    for value in arguments:
        if value is None or isinstance(value, np.ndarray):
            converted.append(ctypes.c_void_p(pointer(value)))
        elif isinstance(value, tuple):
            converted.append((ctypes.c_int64 * len(value))(*value))
        elif isinstance(value, float):
            converted.append(ctypes.c_float(value))
        elif isinstance(value, int):
            converted.append(ctypes.c_int64(value))
        else:
            converted.append(ctypes.byref(value))
    check(getattr(library(), f"model_{name}")(*converted))


def search_batch(
    xyz: NDArray[np.floating],
    queries: NDArray[np.floating],
    lengths: NDArray[np.int64] | None,
    indexed: bool = False,
) -> "SearchBatch":
    """The clouds (B, N, 3) and queries (B, M, 3) of a search; the arrays must outlive it."""
    batch = SearchBatch(
        pointer(xyz), pointer(queries), pointer(lengths), *xyz.shape[:2], queries.shape[1], None
    )
    if indexed:
        size = library().model_index_bytes(ctypes.byref(batch))
        batch.memory = np.full(size + ALIGNED, 0xCD, np.uint8)
        batch.index = batch.memory.ctypes.data + -batch.memory.ctypes.data % ALIGNED
    return batch


def ragged_batch(
    xyz: NDArray[np.float32],
    offsets: NDArray[np.int64],
    slots: NDArray[np.int64],
    starts: NDArray[np.int64],
    indices: NDArray[np.int32],
    distances: NDArray[np.float32],
) -> FpsBatch:
    """A batch over arrays that must outlive it, its sizes taken from them."""
    batch = FpsBatch()
    batch.xyz, batch.offsets, batch.start = map(pointer, (xyz, offsets, starts))
    batch.sample_offsets, batch.indices = pointer(slots), pointer(indices)
    batch.distances = pointer(distances)
    batch.rows, batch.samples, batch.clouds = len(xyz), len(indices), len(starts)
    batch.max_points, batch.max_samples = int(np.diff(offsets).max()), int(np.diff(slots).max())
    return batch


def sample(
    clouds: list[NDArray[np.float32]],
    samples: list[int],
    start: list[int] | None = None,
    method: Method = Method.AUTO,
    seed: int = 0,
    shape: TreeShape | None = None,
    radius: NDArray[np.float32] | None = None,
    with_distances: bool = True,
) -> tuple[list[NDArray[np.int32]], list[NDArray[np.float32]]]:
    """Sample a ragged batch with the CUDA kernels; local indices and distances per cloud."""
    flat = np.ascontiguousarray(np.concatenate(clouds), dtype=np.float32)
    offsets = np.cumsum([0, *map(len, clouds)], dtype=np.int64)
    slots = np.cumsum([0, *samples], dtype=np.int64)
    starts = np.asarray(start or [0] * len(clouds), dtype=np.int64)
    indices = np.full(slots[-1], -7, np.int32)
    distances = np.full(slots[-1], -7, np.float32)
    batch = ragged_batch(flat, offsets, slots, starts, indices, distances)
    batch.radius = pointer(radius)
    batch.distances = pointer(distances) if with_distances else None
    if shape is not None:
        call("fps_tree", batch, *map(int, shape), seed)
    else:
        call("fps", batch, int(method), seed)
    cuts = slots[1:-1]
    locals_ = [part - base for part, base in zip(np.split(indices, cuts), offsets, strict=False)]
    return locals_, np.split(distances, cuts)


def leaves_visited() -> int:
    """Leaves that the tree kernel has gone down to since the last call."""
    return int(library().model_leaves_visited())


@contextmanager
def on_processors(count: int) -> Iterator[None]:
    """Launchers plan for a device of so many; the model's own has 4."""
    library().model_processors(count)
    try:
        yield
    finally:
        library().model_processors(4)


class Plan(NamedTuple):
    """What the dispatch rule picks: the kernel, its tree, the scratch memory that it takes."""

    method: Method
    shape: TreeShape
    scratch_bytes: int


def planned(
    clouds: int,
    points: int,
    samples: int,
    method: Method = Method.AUTO,
    processors: int = 4,
) -> Plan:
    """The plan for equal clouds, on the model's 4 processors by default."""
    batch = FpsBatch()
    batch.clouds, batch.max_points, batch.max_samples = clouds, points, samples
    batch.rows = clouds * points
    found = (ctypes.c_int * 6)()
    scratch_bytes = library().model_plan(ctypes.byref(batch), int(method), processors, found)
    warps, levels, in_shared, sorts_in_block, partitions, picked = found
    shape = TreeShape(warps, levels, bool(in_shared), bool(sorts_in_block), partitions)
    return Plan(Method(picked), shape, scratch_bytes)


def planned_tree(clouds: int, points: int) -> Plan:
    """The tree kernel's plan for equal clouds on the model's 4 processors."""
    return planned(clouds, points, points // 4, Method.TREE)


def brute_force(
    cloud: NDArray[np.float32], m: int, start: int = 0
) -> tuple[NDArray[np.int32], NDArray[np.float32]]:
    """The contract itself, in the obvious loops."""
    cloud = np.ascontiguousarray(cloud, dtype=np.float32)
    indices, distances = np.empty(m, np.int32), np.empty(m, np.float32)
    library().brute_force(
        ctypes.c_void_p(pointer(cloud)),
        len(cloud),
        m,
        start,
        ctypes.c_void_p(pointer(indices)),
        ctypes.c_void_p(pointer(distances)),
    )
    return indices, distances


def check_exact(
    clouds: list[NDArray[np.float32]],
    samples: list[int],
    start: list[int],
    method: Method = Method.AUTO,
    seed: int = 0,
    shape: TreeShape | None = None,
) -> None:
    """Samples a ragged batch; indices and distances are those of the contract in every bit."""
    indices, distances = sample(clouds, samples, start, method, seed, shape)
    for b, cloud in enumerate(clouds):
        expected, radii = brute_force(cloud, samples[b], start[b])
        np.testing.assert_array_equal(indices[b], expected)
        np.testing.assert_array_equal(distances[b], radii)
