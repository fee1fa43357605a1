"""The program that every compared server runs: clouds (B, N, 3) in, logits (B, C) out.

The archive, its weights and the compiled ops are those that farpoint-server has, read as torch's
manual says. They come from the interpreter that runs the benchmark, behind what the peer itself has
installed.
"""

import os
import site

import numpy as np

for folder in os.environ["BENCHMARK_PACKAGES"].split(os.pathsep):
    site.addsitedir(folder)

import torch  # noqa: E402 - found by the lines above

import farpoint_ops  # noqa: E402, F401 - registers the ops of the graph

JOINED = int(os.environ["BENCHMARK_JOINED"])
"""Most clouds of one call; 1 joins none."""
HEADER_BYTES = 8
"""Before a cloud, of which only the sampling benchmark has a use."""
WORKERS = int(os.environ["BENCHMARK_WORKERS"])
JOIN_SECONDS = float(os.environ["BENCHMARK_JOIN_SECONDS"])


class Model:
    """Loads once; called with arrays."""

    def __init__(self) -> None:
        torch.set_num_threads(int(os.environ["OMP_NUM_THREADS"]))
        self._run = torch.export.load(os.environ["BENCHMARK_PROGRAM"]).module()

    def __call__(self, points: np.ndarray) -> np.ndarray:
        with torch.no_grad():
            logits: torch.Tensor = self._run(torch.from_numpy(points))
        return logits.numpy()

    def answer(self, requests: list[bytes]) -> list[bytes]:
        """The logits of each request's cloud; of one size, they share a call."""
        clouds = [np.frombuffer(r, "<f4", offset=HEADER_BYTES).reshape(-1, 3) for r in requests]
        if len({len(cloud) for cloud in clouds}) > 1:
            return [self(cloud[None]).tobytes() for cloud in clouds]
        return [logits.tobytes() for logits in self(np.stack(clouds))]
