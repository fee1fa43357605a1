"""Submission of one launch of farthest point sampling to a GPU, which is not waited for."""

from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
import torch

from farpoint_server.engine.transfer.buffers import Array
from farpoint_server.engine.transfer.pipeline import Pipeline
from farpoint_server.engine.types import Float32s, Int32s, Int64s

T = TypeVar("T")


@dataclass(frozen=True)
class KernelInputs:
    """Arguments of the kernels other than points, over all clouds of a batch."""

    offsets: Int64s
    """Shape (B + 1,): first point of each cloud."""
    sample_offsets: Int64s
    """Shape (B + 1,): first sample of each cloud."""
    starts: Int64s
    """Shape (B,): row of each cloud that is chosen first."""
    with_distances: bool
    """Whether any request asked for them."""
    radii: Float32s | None = None
    """Shape (B,): where each cloud ends, negative for none; None if no request has one."""


def submit(
    points: Sequence[Float32s],
    inputs: KernelInputs,
    cancelled: Int32s,
    pipeline: Pipeline,
    answer: Callable[[Sequence[Array]], T],
) -> "Future[T]":
    """Samples every cloud of a batch.

    A batch that is cancelled whole before its kernels are launched is left out; what was launched
    is finished.

    Args:
        points: Shapes (Pi, 3), which are joined on their way.
        inputs: Of B clouds.
        cancelled: Shape (B,): nonzero for each cloud that is cancelled.
        pipeline: To the GPU.
        answer: Given rows (S,) of the joined points, and distances (S,) if any request asked for
            them; nothing where all was cancelled.
    """
    samples = int(inputs.sample_offsets[-1])
    longest, most = (int(np.diff(o).max()) for o in (inputs.offsets, inputs.sample_offsets))

    def kernel(
        joined: torch.Tensor,
        offsets: torch.Tensor,
        slots: torch.Tensor,
        starts: torch.Tensor,
        radii: torch.Tensor | None = None,
    ) -> Sequence[torch.Tensor]:
        if cancelled.all():
            return ()
        outputs: tuple[torch.Tensor, torch.Tensor] = (
            torch.ops.farpoint.furthest_point_sample_ragged(
                *(joined, offsets, slots, starts),
                *(samples, longest, most),
                *(inputs.with_distances, radii),
            )
        )
        return outputs if inputs.with_distances else outputs[:1]

    arrays = (points, [inputs.offsets], [inputs.sample_offsets], [inputs.starts])
    radii = () if inputs.radii is None else ([inputs.radii],)
    return pipeline.submit((*arrays, *radii), kernel, answer)
