"""Request handler that every compared server runs: 8 bytes of header, then a float32 cloud.

The header is (samples, height) as int32. The answer is the int32 indices that fpsample chooses, in
order. With BENCHMARK_PROGRAM the answer is
the logits of that archive instead, read as in torch's manual: its weights and compiled ops are
those that farpoint-server has. They come from the interpreter that runs the benchmark, behind what
the peer itself has installed.
"""

import os
import site
import struct

import numpy as np

PROGRAM = os.environ.get("BENCHMARK_PROGRAM")
JOINED = int(os.environ.get("BENCHMARK_JOINED", "1"))
"""Most clouds of one call; 1 joins none."""
JOIN_SECONDS = float(os.environ.get("BENCHMARK_JOIN_SECONDS", "0"))
WORKERS = int(os.environ.get("BENCHMARK_WORKERS", "1"))
HEADER = struct.Struct("<ii")


class Sampler:
    """One cloud after the other."""

    def answer(self, requests: list[bytes]) -> list[bytes]:
        return [self._answer(request) for request in requests]

    def _answer(self, request: bytes) -> bytes:
        samples, height = HEADER.unpack_from(request)
        import fpsample

        cloud = np.frombuffer(request, "<f4", offset=HEADER.size).reshape(-1, 3)
        rows = fpsample.bucket_fps_kdline_sampling(cloud, samples, height, start_idx=0)
        return rows.astype("<i4").tobytes()


class Model:
    """The program: clouds (B, N, 3) in, logits (B, C) out. Loads once."""

    def __init__(self, program: str) -> None:
        for folder in os.environ["BENCHMARK_PACKAGES"].split(os.pathsep):
            site.addsitedir(folder)
        import torch

        import farpoint_ops  # noqa: F401 - registers the ops of the graph

        torch.set_num_threads(int(os.environ["OMP_NUM_THREADS"]))
        self._torch = torch
        self._run = torch.export.load(program).module()

    def __call__(self, points: np.ndarray) -> np.ndarray:
        with self._torch.no_grad():
            logits: np.ndarray = self._run(self._torch.from_numpy(points)).numpy()
        return logits

    def answer(self, requests: list[bytes]) -> list[bytes]:
        """The logits of each request's cloud; of one size, they share a call."""
        clouds = [np.frombuffer(r, "<f4", offset=HEADER.size).reshape(-1, 3) for r in requests]
        if len({len(cloud) for cloud in clouds}) > 1:
            return [self(cloud[None]).tobytes() for cloud in clouds]
        return [logits.tobytes() for logits in self(np.stack(clouds))]


def make_handler() -> Sampler | Model:
    return Model(PROGRAM) if PROGRAM else Sampler()
