"""Benchmark of the density encoder on the CPU against the same equations in plain torch.

    python -m benchmarks.ops.model

The plain version (tests.support.plain_encoder) runs the same weights with torch.cdist, topk, unique
and indexing. It is timed twice: with farthest point sampling in plain torch, and with this
project's own, so that what is left is grouping, neighbors and counting. The last rows are a forward
and backward of three stages that halve, with and without checkpoints; "kept" is what is there
between the two. One cloud, one thread; every measurement of memory in a process of its own, as the
growth of its resident size. Prints a table and writes benchmarks/results/model.json.
"""

import argparse
import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from tests.support import plain_encoder

from benchmarks.common.machine import describe
from benchmarks.common.measure import interleaved
from benchmarks.common.point_sets import lidar
from farpoint_models import DensityEncoder, EncoderConfig
from farpoint_ops import farthest_point_sample

RESULTS = Path(__file__).parents[1] / "results"
CONFIG = EncoderConfig(rates=(0.25, 0.25), channels=32, hidden=32, neighbors=16)
DEEP = EncoderConfig(rates=(0.5, 0.5, 0.5), channels=32, hidden=32, neighbors=16)
SIZES = (4096, 16_384)
ROUNDS = 5

Encode = Callable[[torch.Tensor], Any]


def contenders() -> dict[str, Encode]:
    torch.manual_seed(0)
    encoder = DensityEncoder(CONFIG).eval()

    def our_sampler(xyz: torch.Tensor, m: int) -> torch.Tensor:
        return farthest_point_sample(xyz[None], m)[0].long()

    return {
        "farpoint": lambda xyz: encoder(xyz[None]),
        "plain": lambda xyz: plain_encoder.encode(encoder, xyz, between=torch.cdist),
        "plain, our sampling": lambda xyz: plain_encoder.encode(
            encoder, xyz, between=torch.cdist, sampler=our_sampler
        ),
    }


def backward(checkpoint_stages: bool) -> Encode:
    """A call returns the resident MiB between its forward and its backward."""
    torch.manual_seed(0)
    encoder = DensityEncoder(DEEP, checkpoint_stages=checkpoint_stages)

    def train(xyz: torch.Tensor) -> float:
        with torch.enable_grad():
            loss = torch.stack([s.features.square().mean() for s in encoder(xyz[None])]).sum()
        kept = _resident("VmRSS")
        loss.backward()
        return kept

    return train


def training() -> dict[str, Encode]:
    return {"forward and backward": backward(False), "stages checkpointed": backward(True)}


def cloud(points: int) -> torch.Tensor:
    return torch.from_numpy(lidar(points))


def growth(name: str, points: int) -> dict[str, float]:
    """MiB by which one call raises the resident size of this process at its peak, and by which it
    is raised between forward and backward; Linux only."""
    encode, xyz = {**contenders(), **training()}[name], cloud(points)
    encode(xyz[:512])
    before = _resident("VmRSS")
    Path("/proc/self/clear_refs").write_text("5")
    between = encode(xyz)
    peak = _resident("VmHWM") - before
    return {"peak": peak, "kept": between - before} if name in training() else {"peak": peak}


def _resident(field: str) -> float:
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(field)) / 1024


def in_a_process(name: str, points: int) -> dict[str, float]:
    command = [sys.executable, "-m", "benchmarks.ops.model", "--memory", name, str(points)]
    output = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    found: dict[str, float] = json.loads(output)
    return found


def row(points: int, encoders: dict[str, Encode]) -> dict[str, Any]:
    xyz = cloud(points)
    calls = {name: (lambda encode=encode: encode(xyz)) for name, encode in encoders.items()}
    seconds = interleaved(calls, ROUNDS)
    return {
        "n": points,
        "ms": {name: 1e3 * s for name, s in seconds.items()},
        "mib": {name: in_a_process(name, points) for name in encoders},
    }


def markdown(rows: list[dict[str, Any]]) -> str:
    """A table in which every row is set against the first of its group."""
    lines = [
        "| N | version | ms | times | peak MiB | times | kept MiB |",
        "|---|---|---|---|---|---|---|",
    ]
    for r in rows:
        first = next(iter(r["ms"]))
        for name, ms in r["ms"].items():
            peak, kept = r["mib"][name]["peak"], r["mib"][name].get("kept")
            slower, larger = ms / r["ms"][first], peak / r["mib"][first]["peak"]
            lines.append(
                f"| {r['n']} | {name} | {ms:.0f} | {slower:.2f} | {peak:.0f} | {larger:.2f} "
                f"| {'' if kept is None else round(kept)} |"
            )
    return "\n".join(lines) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--memory", nargs=2, metavar=("VERSION", "POINTS"), help="measure one")
    args = parser.parse_args()
    torch.set_num_threads(1)
    torch.set_grad_enabled(False)
    if args.memory:
        print(json.dumps(growth(args.memory[0], int(args.memory[1]))))
        return
    rows = [row(points, contenders()) for points in SIZES] + [row(SIZES[-1], training())]
    report = {"machine": describe("torch"), "rows": rows}
    print(markdown(rows))
    RESULTS.mkdir(exist_ok=True)
    (RESULTS / "model.json").write_text(json.dumps(report, indent=1) + "\n")


if __name__ == "__main__":
    main()
