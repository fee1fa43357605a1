"""Batches clouds of several requests into one call of a program, and splits its outputs.

A manifest names the axes of rows and of clouds; a request has rows first.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from farpoint_models.programs import Batching, Manifest, Role, TensorSpec
from farpoint_server.compute.work import Array, Int64s, halves, joined

# Rows of one call. More take more memory and make a forward pass no faster.
CALL_ROWS = 1 << 16


@dataclass(frozen=True)
class ModelInput:
    """The validated clouds of one request to a model, concatenated, in the model's types."""

    lengths: Int64s
    """Shape (B,): points of each cloud."""
    rows: Mapping[str, Array]
    """By input, including the coordinates: shape (P, ...)."""
    values: Mapping[str, Array] = field(default_factory=dict)
    """By input: shape (B, ...), one for each cloud."""

    def halves(self) -> "Iterator[ModelInput]":
        """Two requests of about as many clouds."""
        for rows, clouds in halves(self.lengths):
            yield ModelInput(
                self.lengths[clouds],
                {name: array[rows] for name, array in self.rows.items()},
                {name: array[clouds] for name, array in self.values.items()},
            )


class ModelOutput(NamedTuple):
    """One output of a model for the clouds of one request."""

    values: Array
    """Shape (R, ...): rows of all clouds; or (B, ...)."""
    lengths: Int64s | None
    """Shape (B,): rows of each cloud; None where each cloud has one value."""


class Cloud(NamedTuple):
    """One cloud of a request to a program."""

    length: int
    rows: Mapping[str, Array]
    """By input: shape (length, ...)."""
    values: Mapping[str, Array]
    """By input: shape (...)."""


def split(request: ModelInput) -> list[Cloud]:
    """The clouds of a request, as views."""
    clouds, end = [], 0
    for index, length in enumerate(request.lengths.tolist()):
        part = slice(end, end + length)
        end = part.stop
        rows = {name: array[part] for name, array in request.rows.items()}
        values = {name: array[index] for name, array in request.values.items()}
        clouds.append(Cloud(length, rows, values))
    return clouds


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
    if not manifest.has_clouds:
        yield from np.arange(len(lengths))[:, None]
        return
    batching, (_, most) = manifest.batching, manifest.limit("B")
    most_rows = min(CALL_ROWS, manifest.limit("P")[1] or CALL_ROWS)
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


def call_rows(lengths: Int64s, manifest: Manifest) -> int:
    """Rows of the largest of these calls, padding included."""
    if manifest.is_ragged:
        return max(int(lengths[places].sum()) for places in calls(lengths, manifest))
    return max(len(places) * int(lengths[places].max()) for places in calls(lengths, manifest))


def arguments(manifest: Manifest, clouds: Sequence[Cloud]) -> list[Array]:
    """The inputs of one call, in the order of the graph."""
    return [np.ascontiguousarray(_argument(manifest, spec, clouds)) for spec in manifest.inputs]


def results(
    manifest: Manifest, outputs: Sequence[Array], clouds: Sequence[Cloud]
) -> list[dict[str, Array]]:
    """The outputs of each cloud, by name: rows (R, ...), or the value of the cloud (...).

    Raises:
        ValueError: an output is not what the manifest says.
    """
    if len(outputs) != len(manifest.outputs):
        raise ValueError(f"the program gave {len(outputs)} outputs of {len(manifest.outputs)}")
    named = {
        spec.name: _checked(spec, output)
        for spec, output in zip(manifest.outputs, outputs, strict=True)
    }
    found: list[dict[str, Array]] = [{} for _ in clouds]
    for spec in manifest.outputs:
        ends = named[spec.counts].reshape(-1) if spec.counts else None
        for cloud, part in zip(
            found, _parts(manifest, spec, named[spec.name], clouds, ends), strict=True
        ):
            cloud[spec.name] = part
    return found


def merged(manifest: Manifest, clouds: Sequence[Mapping[str, Array]]) -> dict[str, ModelOutput]:
    """Joins the outputs of a request's clouds."""
    outputs = {}
    for spec in manifest.outputs:
        arrays = [cloud[spec.name] for cloud in clouds]
        if spec.row_axis is None:
            outputs[spec.name] = ModelOutput(np.stack(arrays), None)
            continue
        lengths = np.array([len(array) for array in arrays])
        outputs[spec.name] = ModelOutput(joined(arrays), lengths)
    return outputs


def _argument(manifest: Manifest, spec: TensorSpec, clouds: Sequence[Cloud]) -> Array:
    lengths = np.array([cloud.length for cloud in clouds])
    if spec.role is Role.LENGTHS:
        return lengths.astype(spec.dtype)
    if spec.role is Role.OFFSETS:
        ends = lengths.cumsum()
        return (ends if spec.shape == ("B",) else np.append(0, ends)).astype(spec.dtype)
    if spec.role is Role.PER_CLOUD:
        values = np.stack([cloud.values[spec.name] for cloud in clouds])
        return values[0] if spec.cloud_axis is None else np.moveaxis(values, 0, spec.cloud_axis)
    arrays = [cloud.rows[spec.name] for cloud in clouds]
    assert spec.row_axis is not None
    if manifest.is_ragged:
        return np.moveaxis(joined(arrays), 0, spec.row_axis)
    if spec.cloud_axis is None:
        return np.moveaxis(arrays[0], 0, spec.row_axis)
    return np.moveaxis(padded(arrays, lengths), (0, 1), (spec.cloud_axis, spec.row_axis))


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
        lengths = [int(count) for count in counts]
    if manifest.is_ragged and spec.row_axis is not None:
        assert lengths is not None
        rows = np.moveaxis(output, spec.row_axis, 0)
        _check_size(spec, len(rows), sum(lengths))
        return np.split(rows, np.cumsum(lengths)[:-1])
    axes = [axis for axis in (spec.cloud_axis, spec.row_axis) if axis is not None]
    first = np.moveaxis(output, axes, range(len(axes)))
    each = first if spec.cloud_axis is not None else first[None]
    _check_size(spec, len(each), len(clouds))
    if lengths is None:
        return list(each)
    if spec.role is Role.PER_POINT:
        _check_size(spec, each.shape[1], max(lengths))
    return [rows[:length] for rows, length in zip(each, lengths, strict=True)]


def _checked(spec: TensorSpec, output: Array) -> Array:
    fits = output.ndim == len(spec.shape) and all(
        isinstance(wanted, str) or size == wanted
        for size, wanted in zip(output.shape, spec.shape, strict=True)
    )
    if not fits or output.dtype != spec.dtype:
        raise ValueError(
            f"output {spec.name}: the manifest says {spec.dtype} {list(spec.shape)}, the program "
            f"gave {output.dtype} {list(output.shape)}"
        )
    return output


def _check_size(spec: TensorSpec, size: int, expected: int) -> None:
    if size != expected:
        raise ValueError(
            f"output {spec.name}: the manifest asks for {expected}, the program gave {size}"
        )
