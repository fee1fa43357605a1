"""Batches clouds into calls of a program, and splits its outputs by cloud.

A manifest names the axes of rows and of clouds; the arrays of a cloud have rows first.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from farpoint_models.programs.manifest import Manifest
from farpoint_models.programs.tensors import (
    ALL_ROWS,
    CLOUDS,
    Batching,
    ProgramError,
    Role,
    TensorSpec,
)

Array: TypeAlias = npt.NDArray[Any]
Int64s: TypeAlias = npt.NDArray[np.int64]
Outputs: TypeAlias = dict[str, Array]
# Rows of one call. More take more memory and make a forward pass no faster.
CALL_ROWS = 1 << 16


class Cloud(NamedTuple):
    """One cloud of a request to a program."""

    length: int
    rows: Mapping[str, Array]
    """By input: shape (length, ...)."""
    values: Mapping[str, Array]
    """By input: shape (...)."""


def run_clouds(
    call: Callable[[Sequence[Array]], Sequence[Array]], manifest: Manifest, clouds: Sequence[Cloud]
) -> list[Outputs]:
    """The outputs of each cloud, in as few calls as the manifest allows."""
    found: list[Outputs] = [{} for _ in clouds]
    for places in calls(np.array([cloud.length for cloud in clouds]), manifest):
        called = [clouds[place] for place in places]
        outputs = call(arguments(manifest, called))
        for place, result in zip(places, results(manifest, outputs, called), strict=True):
            found[place] = result
    return found


def groups(
    lengths: Int64s, most_rows: int = CALL_ROWS, most_clouds: int | None = None, spread: int = 2
) -> Iterator[Int64s]:
    """Indices of the clouds that share a padded call, shortest first.

    Args:
        lengths: Of all clouds.
        most_rows: Of a call of several clouds, padding included.
        most_clouds: Of a call; None is without limit.
        spread: Longest over shortest cloud of a call: with 2 at most half its rows are padding.
    """
    order = np.argsort(lengths, kind="stable")
    begin = 0
    for end in range(1, len(order) + 1):
        if end < len(order) and end - begin != most_clouds:
            longest = lengths[order[end]]
            rows = longest * (end - begin + 1)
            if longest <= spread * lengths[order[begin]] and rows <= most_rows:
                continue
        yield order[begin:end]
        begin = end


def calls(lengths: Int64s, manifest: Manifest) -> Iterator[Int64s]:
    """Indices of the clouds that share each call."""
    if len(lengths) == 1:  # the common case
        yield np.zeros(1, np.int64)
        return
    if not manifest.has_clouds:
        yield from np.arange(len(lengths))[:, None]
        return
    batching, (_, most) = manifest.batching, manifest.limit(CLOUDS)
    most_rows = min(CALL_ROWS, manifest.limit(ALL_ROWS)[1] or CALL_ROWS)
    if batching is Batching.ALONE:
        yield np.arange(len(lengths))
    elif batching is not Batching.RAGGED:
        yield from groups(lengths, most_rows, most, 2 if batching is Batching.PADDED else 1)
    else:
        begin = rows = 0
        for end, length in enumerate(lengths.tolist()):
            rows += length
            if end > begin and (rows > most_rows or end - begin == most):
                yield np.arange(begin, end)
                begin, rows = end, length
        yield np.arange(begin, len(lengths))


def arguments(manifest: Manifest, clouds: Sequence[Cloud]) -> list[Array]:
    """The inputs of one call, in the order of the graph."""
    return [np.ascontiguousarray(_argument(manifest, spec, clouds)) for spec in manifest.inputs]


def results(manifest: Manifest, outputs: Sequence[Array], clouds: Sequence[Cloud]) -> list[Outputs]:
    """The outputs of each cloud, by name: rows (R, ...), or the value of the cloud (...).

    Raises:
        ProgramError: an output is not what the manifest says.
    """
    if len(outputs) != len(manifest.outputs):
        raise ProgramError(f"the program gave {len(outputs)} outputs of {len(manifest.outputs)}")
    named = {
        spec.name: _checked(spec, output)
        for spec, output in zip(manifest.outputs, outputs, strict=True)
    }
    found: list[Outputs] = [{} for _ in clouds]
    for spec in manifest.outputs:
        counts = named[spec.counts].reshape(-1) if spec.counts else None
        if counts is not None:
            _check_size(spec, len(counts), len(clouds), "counts")
        parts = _parts(manifest, spec, named[spec.name], clouds, counts)
        for cloud, part in zip(found, parts, strict=True):
            cloud[spec.name] = part
    return found


def _argument(manifest: Manifest, spec: TensorSpec, clouds: Sequence[Cloud]) -> Array:
    lengths = np.array([cloud.length for cloud in clouds])
    if spec.role is Role.LENGTHS:
        return lengths.astype(spec.dtype)
    if spec.role is Role.OFFSETS:
        ends = lengths.cumsum()
        return (ends if spec.shape == (CLOUDS,) else np.append(0, ends)).astype(spec.dtype)
    if spec.role is Role.PER_CLOUD:
        values = np.stack([cloud.values[spec.name] for cloud in clouds])
        return values[0] if spec.cloud_axis is None else np.moveaxis(values, 0, spec.cloud_axis)
    arrays = [cloud.rows[spec.name] for cloud in clouds]
    assert spec.row_axis is not None
    if manifest.is_ragged:
        joined = arrays[0] if len(arrays) == 1 else np.concatenate(arrays)
    else:
        joined = arrays[0] if spec.cloud_axis is None else padded(arrays, lengths)
    axes = _axes(spec)
    return joined if axes == [0, 1][: len(axes)] else np.moveaxis(joined, range(len(axes)), axes)


def _axes(spec: TensorSpec) -> list[int]:
    """Of clouds and of rows, as far as a tensor has them."""
    return [axis for axis in (spec.cloud_axis, spec.row_axis) if axis is not None]


def padded(arrays: Sequence[Array], lengths: Int64s) -> Array:
    """The rows of each cloud (N, ...) as one array (B, N, ...), padded with zeros."""
    if len(arrays) == 1:
        return arrays[0][None]
    if (lengths == lengths[0]).all():
        return np.stack(arrays)
    filled = np.zeros((len(arrays), lengths.max(), *arrays[0].shape[1:]), arrays[0].dtype)
    for target, array in zip(filled, arrays, strict=True):
        target[: len(array)] = array
    return filled


def _parts(
    manifest: Manifest,
    spec: TensorSpec,
    output: Array,
    clouds: Sequence[Cloud],
    counts: Array | None,
) -> list[Array]:
    """The part of an output for each cloud, rows first."""
    lengths = [cloud.length for cloud in clouds] if spec.role is Role.PER_POINT else None
    if counts is not None:
        lengths = counts.tolist()
    if manifest.is_ragged and spec.row_axis is not None:
        assert lengths is not None
        rows = np.moveaxis(output, spec.row_axis, 0)
        _check_size(spec, len(rows), sum(lengths), "rows")
        return np.split(rows, np.cumsum(lengths)[:-1])
    axes = _axes(spec)
    is_first = axes == [0, 1][: len(axes)]
    first = output if is_first else np.moveaxis(output, axes, range(len(axes)))
    each = first if spec.cloud_axis is not None else first[None]
    _check_size(spec, len(each), len(clouds), "clouds")
    if lengths is None:
        return list(each)
    if spec.role is Role.PER_POINT:
        _check_size(spec, each.shape[1], max(lengths), "rows")
    elif not 0 <= min(lengths) <= max(lengths) <= each.shape[1]:
        raise ProgramError(
            f"output {spec.name}: the counts are {lengths}, of {each.shape[1]} rows of each cloud"
        )
    return [rows[:length] for rows, length in zip(each, lengths, strict=True)]


def _checked(spec: TensorSpec, output: Array) -> Array:
    fits = output.ndim == len(spec.shape) and all(
        isinstance(wanted, str) or size == wanted
        for size, wanted in zip(output.shape, spec.shape, strict=True)
    )
    if not fits or output.dtype != spec.dtype:
        raise ProgramError(
            f"output {spec.name}: the manifest says {spec.dtype} {list(spec.shape)}, the program "
            f"gave {output.dtype} {list(output.shape)}"
        )
    return output


def _check_size(spec: TensorSpec, size: int, expected: int, what: str) -> None:
    if size != expected:
        raise ProgramError(
            f"output {spec.name}: the manifest asks for {expected} {what}, the program gave {size}"
        )
