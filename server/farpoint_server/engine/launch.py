"""One launch of the kernels for all clouds of a batch."""

from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
import torch

import farpoint_ops  # noqa: F401  registers the ops
from farpoint_server.engine.transfer.card import Array
from farpoint_server.engine.transfer.pipeline import Pipeline
from farpoint_server.engine.types import Batch, Float32s, Int32s, Int64s

T = TypeVar("T")
_Array = TypeVar("_Array", Float32s, Int64s)


@dataclass(frozen=True)
class _Arguments:
    """What the kernels take beside the points, over all clouds of a batch."""

    offsets: Int64s
    slots: Int64s
    """The offsets of the samples."""
    starts: Int64s
    with_distances: bool
    """Whether any request asked for them."""


def launch(batch: Batch) -> tuple[Int32s, Float32s | None]:
    """Samples every cloud of a batch on a CPU, on the thread that calls.

    A request that is given up meanwhile costs no more than the pick it is at.

    Returns:
        Rows of the joined points, shape (S,), and distances (S,) if any request asked for them.
    """
    arguments = _arguments(batch)
    with torch.inference_mode():
        rows, distances = torch.ops.farpoint._furthest_point_sample_cancellable(
            torch.from_numpy(_join([clouds.points for clouds in batch.requests])),
            torch.from_numpy(arguments.offsets),
            torch.from_numpy(arguments.slots),
            torch.from_numpy(arguments.starts),
            int(arguments.slots[-1]),
            torch.from_numpy(batch.cancelled),
            arguments.with_distances,
        )
    return rows.numpy(), distances.numpy() if arguments.with_distances else None


def send(
    batch: Batch,
    pipeline: Pipeline[Any],
    finish: Callable[[Int32s, Float32s | None], T],
    nothing: T,
) -> "Future[T]":
    """Samples every cloud of a batch on a card, and does not wait for it.

    What all have given up before its kernels are launched is left; what was launched is finished.

    Args:
        batch: The work.
        pipeline: To the card.
        finish: Makes the answer of what `launch` would return.
        nothing: The answer where everything was given up.
    """
    arguments = _arguments(batch)
    samples = int(arguments.slots[-1])
    longest = int(np.diff(arguments.offsets).max())
    most_samples = int(np.diff(arguments.slots).max())

    def kernel(
        points: torch.Tensor, offsets: torch.Tensor, slots: torch.Tensor, starts: torch.Tensor
    ) -> Sequence[torch.Tensor]:
        if batch.cancelled.all():
            return ()
        outputs: tuple[torch.Tensor, torch.Tensor] = (
            torch.ops.farpoint.furthest_point_sample_ragged(
                *(points, offsets, slots, starts),
                *(samples, longest, most_samples),
                arguments.with_distances,
            )
        )
        return outputs if arguments.with_distances else outputs[:1]

    def answer(outputs: Sequence[Array]) -> T:
        if not outputs:
            return nothing
        return finish(outputs[0], outputs[1] if arguments.with_distances else None)

    inputs = ([clouds.points for clouds in batch.requests], [arguments.offsets])
    return pipeline.run((*inputs, [arguments.slots], [arguments.starts]), kernel, answer)


def _arguments(batch: Batch) -> _Arguments:
    requests = batch.requests
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
