"""Forwards on a real GPU, through the memory manager that a server would have.

Needs torch and numpy alone. The forward is farthest point sampling, by our own kernels where they
are built and in plain torch elsewhere: what is tested is memory.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch

from farpoint_server.engine.sample import sample_bytes
from farpoint_server.memory.cuda import CudaAllocator
from farpoint_server.memory.gate import Gate
from farpoint_server.memory.host import Heap
from farpoint_server.memory.manager import Manager
from farpoint_server.memory.policy import Thresholds

SAMPLES = 16
DEVICE = torch.device("cuda", 0)


@dataclass(frozen=True)
class Cloud:
    """A request of one cloud, in pinned host memory."""

    points: torch.Tensor


def cloud(points: int) -> Cloud:
    return Cloud(torch.rand(points, 3).pin_memory())


def has_kernels() -> bool:
    try:
        import farpoint_ops  # noqa: F401
    except ImportError:
        return False
    op = "farpoint::furthest_point_sample_ragged"
    return bool(torch._C._dispatch_has_kernel_for_dispatch_key(op, "CUDA"))


def forward(batch: "CloudBatch") -> list[np.ndarray]:
    """Rows of SAMPLES points of each cloud."""
    sizes = [len(request.points) for request in batch.requests]
    points = torch.cat([r.points.to(DEVICE, non_blocking=True) for r in batch.requests])
    with torch.inference_mode():
        rows = _sample(points, sizes)
    return [np.asarray(part) for part in rows.cpu().numpy().reshape(len(batch), SAMPLES)]


def _sample(points: torch.Tensor, sizes: list[int]) -> torch.Tensor:
    if has_kernels():
        from farpoint_ops import farthest_point_sample_ragged

        offsets = np.concatenate([[0], np.cumsum(sizes)]).tolist()
        return farthest_point_sample_ragged(points, offsets, SAMPLES)
    return torch.cat([_farthest(part) for part in points.split(sizes)])


def _farthest(points: torch.Tensor) -> torch.Tensor:
    rows = torch.zeros(SAMPLES, dtype=torch.int32, device=points.device)
    nearest = points.new_full((len(points),), torch.inf)
    for i in range(1, SAMPLES):
        last = points.index_select(0, rows[i - 1 : i])
        nearest = torch.minimum(nearest, (points - last).square().sum(1))
        rows[i] = nearest.argmax()
    return rows


@dataclass(frozen=True)
class CloudBatch:
    """Requests that a manager may cut between them."""

    requests: Sequence[Cloud]

    @property
    def predicted_bytes(self) -> int:
        points = sum(len(request.points) for request in self.requests)
        return sample_bytes(points, len(self), SAMPLES * len(self))

    def __len__(self) -> int:
        return len(self.requests)

    def __getitem__(self, requests: slice) -> "CloudBatch":
        return CloudBatch(self.requests[requests])

    def halve(self) -> None:
        return None

    def join(self, first: np.ndarray, second: np.ndarray) -> np.ndarray:
        raise NotImplementedError


def manager(
    thresholds: Thresholds | None = None,
    *,
    fraction: float = 1.0,
    enabled: bool = True,
    **options: object,
) -> Manager:
    """A manager of GPU 0."""
    allocator = CudaAllocator(DEVICE, fraction, expandable=False, heap=Heap())
    return Manager(allocator, thresholds or Thresholds(), Gate(), enabled=enabled, **options)
