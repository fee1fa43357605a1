"""Forward of the shipped encoder in half precision and under torch.compile, beside float32.

    python -m benchmarks.ops.precision [--points 1024 16384] [--rounds 9]

CPU only. Every form runs in each round, in an order that turns, and figures are medians: a
disturbed round disturbs all of them. The error is of the features of all stages, as a share of the
float32 features' standard deviation; which points are sampled must not change. `compile s` is what
the first call took, with sizes that may vary, beside a second size that must not compile again.
"""

import argparse
import time
from collections.abc import Callable
from statistics import median

import torch
from torch import Tensor

from benchmarks.common.machine import describe
from benchmarks.common.point_sets import lidar
from farpoint_models import default_encoder
from farpoint_models.encoder import DensityEncoder, EncodedStage

Forward = Callable[[Tensor], tuple[EncodedStage, ...]]


def autocast(encoder: Forward, dtype: torch.dtype) -> Forward:
    """The encoder with its layers of weights in `dtype`; coordinates stay float32."""

    def forward(xyz: Tensor) -> tuple[EncodedStage, ...]:
        with torch.autocast("cpu", dtype):
            return encoder(xyz)

    return forward


def forms(encoder: DensityEncoder) -> dict[str, Forward]:
    """Float32 first: what the others are compared with."""
    compiled: Forward = torch.compile(encoder, dynamic=True, fullgraph=True)
    return {
        "float32": encoder,
        "bfloat16": autocast(encoder, torch.bfloat16),
        "float16": autocast(encoder, torch.float16),
        "compiled float32": compiled,
    }


def errors(found: tuple[EncodedStage, ...], true: tuple[EncodedStage, ...]) -> tuple[float, float]:
    """Root mean square and largest error of features, in their standard deviations.

    Raises:
        SystemExit: other points were sampled.
    """
    worst, square = 0.0, 0.0
    for ours, theirs in zip(found, true, strict=True):
        if not torch.equal(ours.indices, theirs.indices):
            raise SystemExit("other points were sampled")
        apart = (ours.features.float() - theirs.features) / theirs.features.std()
        worst = max(worst, float(apart.abs().max()))
        square = max(square, float(apart.square().mean()))
    return square**0.5, worst


@torch.no_grad()
def measure(points: int, rounds: int, candidates: dict[str, Forward]) -> list[str]:
    """A line of the table for each form at one size."""
    xyz = torch.from_numpy(lidar(points))[None]
    true = candidates["float32"](xyz)
    first, error = {}, {}
    for name, forward in candidates.items():
        begun = time.perf_counter()
        found = forward(xyz)
        first[name], error[name] = time.perf_counter() - begun, errors(found, true)
    wall: dict[str, list[float]] = {name: [] for name in candidates}
    cpu: dict[str, list[float]] = {name: [] for name in candidates}
    names = list(candidates)
    for number in range(rounds):
        for name in names[number % len(names) :] + names[: number % len(names)]:
            begun, used = time.perf_counter(), time.process_time()
            candidates[name](xyz)
            wall[name].append(time.perf_counter() - begun)
            cpu[name].append(time.process_time() - used)
    base = median(wall["float32"]), median(cpu["float32"])
    return [
        f"| {points} | {n} | {1e3 * median(wall[n]):.1f} | {base[0] / median(wall[n]):.2f} "
        f"| {base[1] / median(cpu[n]):.2f} | {error[n][0]:.2g} | {error[n][1]:.2g} "
        f"| {first[n]:.1f} |"
        for n in names
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--points", type=int, nargs="+", default=(1024, 4096, 16_384))
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--forms", nargs="+", help="some of them, beside float32")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    candidates = forms(default_encoder())
    if options.forms:
        candidates = {n: f for n, f in candidates.items() if n in ("float32", *options.forms)}
    print(describe("torch"))
    print("| N | form | ms | speed | speed by CPU time | rms error | largest | first call s |")
    print("|---|---|---|---|---|---|---|---|")
    for points in options.points:
        print("\n".join(measure(points, options.rounds, candidates)), flush=True)


if __name__ == "__main__":
    main()
