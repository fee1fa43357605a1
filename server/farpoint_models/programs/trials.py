"""Trials of a program: clouds of the sizes that a server runs, with the author's values."""

import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from farpoint_models.programs.calls import Array, Cloud
from farpoint_models.programs.manifest import Manifest
from farpoint_models.programs.tensors import (
    ALL_ROWS,
    CLOUDS,
    ROWS,
    Batching,
    TensorSpec,
)

# Points above the manifest's minimum, and clouds, unlike constants of a module, such as 3 or 16.
ODD, TRACED = 61, 5
# Points of the largest trial where no limit says. Sizes grow to it fourfold, until a trial takes so
# long that the next could take sixteen times as much time and memory.
LARGEST, GROWTH, LONG_S = 4096, 4, 0.2
# Clouds of one size, from small to large ones.
SCALES = (1.0, 0.3, 4.0, 0.7)


def trials(manifest: Manifest) -> Iterator[list[Cloud]]:
    """One cloud and several, of the smallest and of odd sizes."""
    least, odd = (cloud_size(manifest, size) for size in (0, ODD))
    sizes = [[least], [least, least], [odd, odd, odd * 3 // 4 + 1, least, odd]]
    if not manifest.has_clouds:
        sizes = [[least], [odd]]
    elif manifest.batching is Batching.ALONE:
        counts = [manifest.within(CLOUDS, count) for count in (1, 2, 5)]
        sizes = [[least] * counts[0], [least] * counts[1], [odd] * counts[2]]
    for number, lengths in enumerate(sizes):
        within = [cloud_size(manifest, length, above=0) for length in lengths]
        yield clouds_of(manifest, within, own=ODD // 3 * number)


def traced(manifest: Manifest) -> list[Cloud]:
    """Several clouds of a size unlike constants of a module."""
    count = manifest.within(CLOUDS, TRACED) if manifest.has_clouds else 1
    sizes = [cloud_size(manifest, ODD)] * count
    if manifest.is_ragged or manifest.batching is Batching.PADDED:
        sizes = [cloud_size(manifest, ODD - 7 * place) for place in range(count)]
    return clouds_of(manifest, sizes, own=ODD // 3)


def larger_trials(manifest: Manifest) -> Iterator[list[Cloud]]:
    """One cloud each, of growing sizes up to the largest."""
    last, size = cloud_size(manifest, ODD), ODD
    _, most = _bounds(manifest)
    while size < (most or LARGEST):
        size *= GROWTH
        length = cloud_size(manifest, min(size, most or LARGEST), above=0)
        if length > last:
            begun = time.monotonic()
            yield clouds_of(manifest, [length] * manifest.within(CLOUDS, 1), own=size)
            if time.monotonic() - begun > LONG_S:
                return
            last = length


def cloud_size(manifest: Manifest, wanted: int, above: int | None = None) -> int:
    """The allowed number of points of a cloud nearest to some above the least."""
    least, most = _bounds(manifest)
    wanted += least if above is None else above
    return max(least, wanted if most is None else min(wanted, most))


def _bounds(manifest: Manifest) -> tuple[int, int | None]:
    ends = [manifest.limit(name) for name in (ROWS, ALL_ROWS)]
    most = [end for _, end in ends if end is not None]
    return max(least for least, _ in ends), min(most, default=None)


def clouds_of(manifest: Manifest, lengths: Sequence[int], own: int = ODD) -> list[Cloud]:
    """Clouds with different values, the author's where there are examples."""
    random = np.random.default_rng(sum(lengths))
    sizes = {
        name: manifest.within(name, manifest.limit(name)[0] + own)
        for spec in manifest.extra_inputs
        for name in spec.own
    }
    return [_cloud(manifest, n, i, sizes, random) for i, n in enumerate(lengths)]


def _cloud(
    manifest: Manifest, length: int, place: int, sizes: Mapping[str, int], random: Any
) -> Cloud:
    examples = manifest.examples
    example = examples[place % len(examples)] if examples else {}
    chosen = random.permutation(length)
    rows: dict[str, Array] = {}
    values: dict[str, Array] = {}
    for spec in (manifest.points, *manifest.extra_inputs):
        shape = tuple(sizes[size] if isinstance(size, str) else size for size in spec.row_shape)
        if spec.row_axis is not None:
            shape = (length, *shape)
        if spec.name in example:
            array = np.asarray(example[spec.name], spec.dtype)
            array = array[chosen % len(array)] if spec.row_axis is not None else array
            # Rows that are drawn twice, and clouds of one example, differ a little.
            is_new = place < len(examples) and (spec.row_axis is None or len(array) == length)
            array = array if is_new else _moved(array, random)
        else:
            array = _random(spec, shape, SCALES[place % len(SCALES)], random)
        (values if spec.row_axis is None else rows)[spec.name] = array
    return Cloud(length, rows, values)


def _moved(array: Array, random: Any) -> Array:
    if array.dtype.kind != "f":
        return array
    step = 1e-3 * max(float(np.ptp(array)), float(np.abs(array).max()) * 1e-3)
    moved: Array = (array + step * random.standard_normal(array.shape)).astype(array.dtype)
    return moved


def _random(spec: TensorSpec, shape: tuple[int, ...], scale: float, random: Any) -> Array:
    """Floats below the scale, and 0 or 1 for integers."""
    if np.dtype(spec.dtype).kind == "f":
        floats: Array = (scale * random.random(shape)).astype(spec.dtype)
        return floats
    bits: Array = random.integers(0, 2, shape).astype(spec.dtype)
    return bits
