"""One launch of the kernels for all clouds of a batch."""

from collections.abc import Sequence

import numpy as np
import torch

from farpoint_ops import furthest_point_sample_ragged
from farpoint_server.work import Batch, Float32s, Int32s, Int64s


def launch(batch: Batch, device: torch.device) -> tuple[Int32s, Float32s | None]:
    """Samples every cloud of a batch on the thread that calls.

    On a CPU a request that is given up meanwhile costs no more than the pick it is at. On a GPU
    what was launched is finished.

    Returns:
        Rows of the joined points, shape (S,), and distances (S,) if any request asked for them.
    """
    points = _join([clouds.points for clouds in batch.requests])
    lengths = np.concatenate([clouds.lengths for clouds in batch.requests])
    counts = np.concatenate([clouds.sample_counts for clouds in batch.requests])
    starts = np.concatenate([clouds.starts for clouds in batch.requests])
    with_distances = any(clouds.with_distances for clouds in batch.requests)
    run = _run_on_cpu if device.type == "cpu" else _run_on_gpu
    with torch.inference_mode():
        rows, distances = run(
            torch.from_numpy(points).to(device),
            *(_offsets(lengths), _offsets(counts), starts),
            torch.from_numpy(batch.cancelled),
            with_distances,
        )
    return rows.cpu().numpy(), distances.cpu().numpy() if with_distances else None


def _run_on_cpu(
    points: torch.Tensor,
    offsets: Int64s,
    slots: Int64s,
    starts: Int64s,
    cancelled: torch.Tensor,
    with_distances: bool,
) -> tuple[torch.Tensor, torch.Tensor]:
    rows, distances = torch.ops.farpoint._furthest_point_sample_cancellable(
        points,
        torch.from_numpy(offsets),
        torch.from_numpy(slots),
        torch.from_numpy(starts),
        int(slots[-1]),
        cancelled,
        with_distances,
    )
    return rows, distances


def _run_on_gpu(
    points: torch.Tensor,
    offsets: Int64s,
    slots: Int64s,
    starts: Int64s,
    cancelled: torch.Tensor,  # noqa: ARG001
    with_distances: bool,  # noqa: ARG001
) -> tuple[torch.Tensor, torch.Tensor]:
    return furthest_point_sample_ragged(
        points,
        offsets.tolist(),
        np.diff(slots).tolist(),
        start=starts.tolist(),
        return_distances=True,
    )


def _join(points: Sequence[Float32s]) -> Float32s:
    """A request that is alone in its batch is not copied."""
    return points[0] if len(points) == 1 else np.concatenate(points)


def _offsets(lengths: Int64s) -> Int64s:
    return np.concatenate([np.zeros(1, np.int64), lengths.cumsum()])
