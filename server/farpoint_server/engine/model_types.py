"""What passes between the codec and the forward of an encoder."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from farpoint_server.engine.types import Float32s, Int32s, Int64s


@dataclass(frozen=True)
class ModelInput:
    """The clouds of one request, one after the other, checked."""

    points: Float32s
    """Shape (P, 3), finite."""
    attributes: Float32s
    """Shape (P, A), as many as the model takes."""
    lengths: Int64s
    """Shape (B,): points of each cloud."""


@dataclass(frozen=True)
class Stage:
    """What a stage keeps of B clouds: S points, one cloud after the other."""

    lengths: Int64s
    """Shape (B,): points kept of each cloud."""
    indices: Int32s
    """Shape (S,): rows, counted from the cloud's own first."""
    features: Float32s
    """Shape (S, C)."""
    counts: Int32s
    """Shape (S,): points of the cloud that each stands for."""
    mean_distances: Float32s
    """Shape (S,)."""


def join(stages: Sequence[Stage]) -> Stage:
    """The same stage of several clouds as one."""
    return Stage(
        lengths=np.concatenate([stage.lengths for stage in stages]),
        indices=np.concatenate([stage.indices for stage in stages]),
        features=np.concatenate([stage.features for stage in stages]),
        counts=np.concatenate([stage.counts for stage in stages]),
        mean_distances=np.concatenate([stage.mean_distances for stage in stages]),
    )
