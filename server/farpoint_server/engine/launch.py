"""Launches of the sampling kernels: one for all clouds of a batch, split into its answers."""

from collections.abc import Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
import torch

import farpoint_ops  # noqa: F401  registers the ops
from farpoint_server.engine.transfer.device import Array
from farpoint_server.engine.transfer.pipeline import Pipeline
from farpoint_server.engine.types import Clouds, Float32s, Int32s, Int64s, Samples

_Array = TypeVar("_Array", Float32s, Int64s)
# What a request gets that was given up: nobody reads it.
NOTHING = Samples(np.empty(0, np.int32), None)


@dataclass(frozen=True)
class _Arguments:
    """What the kernels take beside the points, over all clouds of a batch."""

    offsets: Int64s
    sample_offsets: Int64s
    starts: Int64s
    with_distances: bool
    """Whether any request asked for them."""


def launch(requests: Sequence[Clouds], cancelled: Int32s) -> list[Samples]:
    """The samples of each request, on a CPU, from the thread that calls.

    Args:
        requests: One or more, with B clouds together.
        cancelled: Shape (B,): clouds whose flag is nonzero, now or later, are left unfinished.
    """
    arguments = _arguments(requests)
    with torch.inference_mode():
        rows, distances = torch.ops.farpoint._furthest_point_sample_cancellable(
            torch.from_numpy(_join([clouds.points for clouds in requests])),
            torch.from_numpy(arguments.offsets),
            torch.from_numpy(arguments.sample_offsets),
            torch.from_numpy(arguments.starts),
            int(arguments.sample_offsets[-1]),
            torch.from_numpy(cancelled),
            arguments.with_distances,
        )
    return _split(requests, rows.numpy(), distances.numpy() if arguments.with_distances else None)


def submit(
    requests: Sequence[Clouds], cancelled: Int32s, pipeline: Pipeline[Any]
) -> "Future[list[Samples]]":
    """The samples of each request, on a GPU, which is not waited for.

    What all have given up before its kernels are launched is left; what was launched is finished.

    Args:
        requests: One or more, with B clouds together.
        cancelled: Shape (B,): nonzero for each cloud that is given up.
        pipeline: To the GPU.
    """
    arguments = _arguments(requests)
    samples = int(arguments.sample_offsets[-1])
    longest = int(np.diff(arguments.offsets).max())
    most_samples = int(np.diff(arguments.sample_offsets).max())

    def kernel(
        points: torch.Tensor, offsets: torch.Tensor, slots: torch.Tensor, starts: torch.Tensor
    ) -> Sequence[torch.Tensor]:
        if cancelled.all():
            return ()
        outputs: tuple[torch.Tensor, torch.Tensor] = (
            torch.ops.farpoint.furthest_point_sample_ragged(
                *(points, offsets, slots, starts),
                *(samples, longest, most_samples),
                arguments.with_distances,
            )
        )
        return outputs if arguments.with_distances else outputs[:1]

    def answer(outputs: Sequence[Array]) -> list[Samples]:
        if not outputs:
            return [NOTHING] * len(requests)
        return _split(requests, outputs[0], outputs[1] if len(outputs) > 1 else None)

    inputs = ([clouds.points for clouds in requests], [arguments.offsets])
    return pipeline.submit(
        (*inputs, [arguments.sample_offsets], [arguments.starts]), kernel, answer
    )


def _arguments(requests: Sequence[Clouds]) -> _Arguments:
    return _Arguments(
        _offsets([clouds.lengths for clouds in requests]),
        _offsets([clouds.sample_counts for clouds in requests]),
        np.ascontiguousarray(_join([clouds.starts for clouds in requests])),
        any(clouds.with_distances for clouds in requests),
    )


def _join(arrays: Sequence[_Array]) -> _Array:
    """A request that is alone in its batch is not copied."""
    return arrays[0] if len(arrays) == 1 else np.concatenate(arrays)


def _offsets(parts: Sequence[Int64s]) -> Int64s:
    lengths = _join(parts)
    offsets = np.zeros(len(lengths) + 1, np.int64)
    lengths.cumsum(out=offsets[1:])
    return offsets


def sample_count(clouds: Clouds) -> int:
    """Points that are wanted of all clouds together."""
    counts = clouds.sample_counts
    return int(counts[0]) if len(counts) == 1 else int(counts.sum())


def _split(requests: Sequence[Clouds], rows: Int32s, distances: Float32s | None) -> list[Samples]:
    """Gives each request its own samples, with rows counted from its own first point."""
    if len(requests) == 1:
        return [Samples(rows, distances)]
    samples = []
    point = sample = 0
    for clouds in requests:
        part = slice(sample, sample + sample_count(clouds))
        samples.append(
            Samples(
                rows=rows[part] - np.int32(point),
                distances=None
                if distances is None or not clouds.with_distances
                else distances[part],
            )
        )
        point += len(clouds.points)
        sample = part.stop
    return samples
