"""Work for an engine, as the batcher hands it over."""

import numpy as np

from farpoint_server.engine.types import Clouds


def clouds_of(
    random: np.random.Generator, *lengths: int, per_sample: int = 3, with_distances: bool = False
) -> Clouds:
    """Clouds of these lengths; of each a point in `per_sample` is wanted, the last row first."""
    return Clouds(
        random.normal(size=(sum(lengths), 3)).astype(np.float32),
        np.array(lengths),
        np.array([max(1, length // per_sample) for length in lengths]),
        np.array(lengths) - 1,
        with_distances,
    )
