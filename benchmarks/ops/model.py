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
from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from tests.support import plain_encoder

from benchmarks.common.measure import in_a_process, interleaved, peak_growth, resident_bytes
from benchmarks.common.point_sets import lidar
from benchmarks.common.report import Row, describe, table, write
from farpoint_models import DensityEncoder, EncoderConfig
from farpoint_ops import farthest_point_sample

MIB = 1 << 20
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
    """A call returns the resident bytes between its forward and its backward."""
    torch.manual_seed(0)
    encoder = DensityEncoder(DEEP, checkpoint_stages=checkpoint_stages)

    def train(xyz: torch.Tensor) -> int:
        with torch.enable_grad():
            loss = torch.stack([s.features.square().mean() for s in encoder(xyz[None])]).sum()
        kept = resident_bytes()
        loss.backward()
        return kept

    return train


def training() -> dict[str, Encode]:
    return {"forward and backward": backward(False), "stages checkpointed": backward(True)}


def growth(name: str, points: int) -> dict[str, float]:
    """MiB by which one call raises the resident size of this process at its peak, and by which it
    is raised between forward and backward."""
    torch.set_num_threads(1)
    torch.set_grad_enabled(False)
    encode, xyz = {**contenders(), **training()}[name], torch.from_numpy(lidar(points))
    encode(xyz[:512])
    before, between = resident_bytes(), []
    peak = peak_growth(lambda: between.append(encode(xyz)))
    found = {"peak": peak / MIB}
    return {**found, "kept": (between[0] - before) / MIB} if name in training() else found


def row(points: int, encoders: dict[str, Encode]) -> Row:
    xyz = torch.from_numpy(lidar(points))
    calls = {name: partial(encode, xyz) for name, encode in encoders.items()}
    return {
        "n": points,
        "ms": interleaved(calls, rounds=ROUNDS),
        "mib": {name: in_a_process(growth, name, points) for name in encoders},
    }


def markdown(rows: list[Row]) -> str:
    """A table in which every row is set against the first of its group."""
    lines = []
    for r in rows:
        first = next(iter(r["ms"]))
        for name, ms in r["ms"].items():
            peak, kept = r["mib"][name]["peak"], r["mib"][name].get("kept", "")
            slower, larger = ms / r["ms"][first], peak / r["mib"][first]["peak"]
            lines.append((r["n"], name, ms, slower, peak, larger, kept))
    return table(("N", "version", "ms", "times", "peak MiB", "times", "kept MiB"), lines)


def main() -> None:
    argparse.ArgumentParser(description=__doc__.splitlines()[0]).parse_args()
    torch.set_num_threads(1)
    torch.set_grad_enabled(False)
    rows = [row(points, contenders()) for points in SIZES] + [row(SIZES[-1], training())]
    print(markdown(rows))
    write("model", {"machine": describe("torch"), "rows": rows})


if __name__ == "__main__":
    main()
