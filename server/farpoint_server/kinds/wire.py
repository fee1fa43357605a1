"""Works and answers as parameters and arrays for another process, and back with every check.

A front end parses what strangers send, so the engine takes nothing on trust from it: `unpack_work`
refuses what the codec would not have made, and no value is code.
"""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from farpoint_server.compute.arrays import Array, Int64s
from farpoint_server.compute.remote.kinds import Models, Packed
from farpoint_server.compute.remote.region import DamagedError
from farpoint_server.compute.work import Work
from farpoint_server.kinds.batching import ModelInput, ModelOutput
from farpoint_server.kinds.method import MethodClouds, MethodWork, RandomRows, VoxelGrid
from farpoint_server.kinds.model import ModelWork
from farpoint_server.kinds.sample import Clouds, Samples, SampleWork

SAMPLE, GRID, RANDOM, MODEL = "sample", "grid", "random", "model"
# Clouds of a request.
FEW = 16
MOST = 1 << 31
OUTSIDE = "a sample outside of its cloud"
SELECTS = ("first", "nearest_mean", "mean")


def pack_work(work: Work[Any]) -> Packed:
    """A request for `unpack_work`."""
    if isinstance(work, SampleWork):
        clouds = work.clouds
        parameters = SAMPLE, clouds.with_distances, clouds.covering_radius
        table = np.array((clouds.lengths, clouds.sample_counts, clouds.starts))
        return Packed(parameters, (clouds.points, table))
    if isinstance(work, MethodWork):
        of = work.clouds
        kind = GRID if isinstance(of.method, VoxelGrid) else RANDOM
        table = np.array((of.lengths, of.sample_counts))
        return Packed((kind, *of.method), (of.points, table))
    assert isinstance(work, ModelWork)
    rows, values = work.request.rows, work.request.values
    call = MODEL, work.model.number, [*rows], [*values]
    return Packed(call, [work.request.lengths, *rows.values(), *values.values()])


def unpack_work(parameters: Sequence[Any], arrays: Sequence[Array], models: Models) -> Work[Any]:
    """The request; raises DamagedError for what `pack_work` does not make of a valid one.

    Args:
        parameters: Of another process, like `arrays`.
        models: Gives a model by its number; None for one that the process was not given.
    """
    try:
        kind, *more = parameters
        if kind == SAMPLE:
            return _sample(arrays, *more)
        if kind == MODEL:
            return _model(arrays, models, *more)
        if kind in (GRID, RANDOM):
            return (_grid if kind == GRID else _random)(arrays, *more)
    except (TypeError, ValueError) as error:
        raise DamagedError(f"a work of other parameters: {error}") from error
    raise DamagedError("a work of another kind")


def pack_answer(answer: Any) -> Packed:
    """An answer for `unpack_answer`."""
    if isinstance(answer, Samples):
        given = [array is not None for array in answer]
        return Packed(given, [array for array in answer if array is not None])
    arrays: list[Array] = []
    for output in answer.values():
        arrays += [array for array in output if array is not None]
    return Packed([[name, of.lengths is not None] for name, of in answer.items()], arrays)


def unpack_answer(parameters: Sequence[Any], arrays: Sequence[Array]) -> Any:
    """The answer of an engine, which is trusted."""
    left = iter(arrays)
    if parameters and isinstance(parameters[0], bool):
        fields: Any = [next(left) if given else None for given in parameters]
        return Samples(*fields)
    outputs: Mapping[str, ModelOutput] = {
        name: ModelOutput(next(left), next(left) if has_lengths else None)
        for name, has_lengths in parameters
    }
    return outputs


def _sample(arrays: Sequence[Array], with_distances: object, covering_radius: object) -> SampleWork:
    points, (lengths, counts, starts) = _clouds(arrays, 3, (np.float32,))
    _check(type(with_distances) is bool, "distances")
    radius = None if covering_radius is None else _number(covering_radius)
    _check(radius is None or radius >= 0, "a radius")
    return SampleWork(Clouds(points, lengths, counts, starts, bool(with_distances), radius))


def _grid(
    arrays: Sequence[Array], voxel_size: object, select: object, origin: Sequence[object]
) -> MethodWork:
    points, (lengths, counts) = _clouds(arrays, 2, (np.float32, np.float64))
    _check(select in SELECTS and len(origin) == 3, "a voxel grid")
    x, y, z = map(_number, origin)
    size = _number(voxel_size)
    _check(size > 0, "a voxel size")
    grid = VoxelGrid(size, select, (x, y, z))  # type: ignore[arg-type]
    return MethodWork(MethodClouds(points, lengths, counts, grid))


def _random(arrays: Sequence[Array], seeds: Sequence[object]) -> MethodWork:
    points, (lengths, counts) = _clouds(arrays, 2, (np.float32, np.float64))
    _check(len(seeds) == len(lengths) and all(type(seed) is int for seed in seeds), "seeds")
    rows = RandomRows(tuple(seeds))  # type: ignore[arg-type]
    return MethodWork(MethodClouds(points, lengths, counts, rows))


def _model(
    arrays: Sequence[Array], models: Models, number: int, rows: list[str], values: list[str]
) -> ModelWork:
    model = models(number)
    _check(model is not None and len(arrays) == 1 + len(rows) + len(values), "a model")
    assert model is not None
    lengths, *others = arrays
    named = dict(zip((*rows, *values), others, strict=True))
    specs = {spec.name: spec for spec in (model.manifest.points, *model.manifest.extra_inputs)}
    _check(named.keys() == specs.keys(), "inputs of another model")
    _check(all(array.dtype == specs[name].dtype for name, array in named.items()), "types")
    _check(lengths.dtype.type is np.int64 and lengths.ndim == 1 and len(lengths) > 0, "lengths")
    _check(int(lengths.min()) >= 1 and int(lengths.max()) < MOST, "a length")
    total = int(lengths.sum())
    _check(all(named[name].shape[:1] == (total,) for name in rows), "rows of other clouds")
    _check(all(named[name].shape[:1] == lengths.shape for name in values), "values of other clouds")
    request = ModelInput(
        lengths, {name: named[name] for name in rows}, {name: named[name] for name in values}
    )
    return ModelWork(model, request)


def _clouds(
    arrays: Sequence[Array], rows: int, types: Sequence[type[np.generic]]
) -> tuple[Array, Int64s]:
    """Points, and rows of lengths, samples and perhaps starts of each cloud."""
    points, table = arrays
    _check(points.dtype.type in types and points.shape[1:] == (3,), "points of another type")
    is_table = table.dtype.type is np.int64 and table.ndim == 2 and len(table) == rows
    _check(is_table, "clouds of another type")
    # No sum overflows: a cloud has fewer rows than an int32 counts.
    if table.shape[1] <= FEW:  # as the rest, in a fifth of the time
        total = 0
        for length, count, *start in table.T.tolist():
            _check(1 <= count <= length < MOST and 0 <= sum(start) < length, OUTSIDE)
            total += length
    else:
        lengths, counts, *starts = table
        _check(bool(((counts >= 1) & (counts <= lengths) & (lengths < MOST)).all()), OUTSIDE)
        _check(all(bool(((s >= 0) & (s < lengths)).all()) for s in starts), OUTSIDE)
        total = int(lengths.sum())
    _check(total == len(points) > 0, "lengths of other points")
    return points, table


def _number(value: Any) -> float:
    _check(type(value) in (int, float) and not math.isnan(value), "a number")
    return float(value)


def _check(is_valid: bool, what: str) -> None:
    if not is_valid:
        raise DamagedError(f"a work with {what} that no request has")
