"""The batch of each step, decided by the seed and the step alone, so that a run can be resumed."""

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from farpoint_training.sources import Source

# Clouds of several sizes, always as many points in a step.
CLOUD_SIZES = (512, 1024, 2048)


def batch(sources: Sequence[Source], points: int, seed: int, step: int) -> Tensor:
    """Clouds of one size (B, N, 3), float32; B * N is `points`, or N where that is less."""
    rng = np.random.default_rng((seed, step))
    size = min(int(rng.choice(CLOUD_SIZES)), points)
    clouds = [sources[int(rng.integers(len(sources)))](size, rng) for _ in range(points // size)]
    return torch.from_numpy(np.stack(clouds))
