"""Benchmark of the density encoder on the CPU against the same equations in plain torch.

    python -m benchmarks.ops.model

The plain version (tests.support.plain_encoder) runs the same weights with torch.cdist, topk, unique
and indexing. It is timed twice: with farthest point sampling in plain torch, and with this
project's own, so that what is left is grouping, neighbors and counting. One cloud, one thread;
memory is measured in a process of its own, as the growth of its resident size. Prints a table and
writes benchmarks/results/model.json.
"""

import argparse
from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from tests.support import plain_encoder

from benchmarks.common.measure import in_a_process, interleaved, peak_growth
from benchmarks.common.point_sets import lidar
from benchmarks.common.report import Row, describe, table, write
from farpoint_models import DensityEncoder, EncoderConfig
from farpoint_ops import farthest_point_sample

MIB = 1 << 20
CONFIG = EncoderConfig(rates=(0.25, 0.25), channels=32, hidden=32, neighbors=16)
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


def growth(name: str, points: int) -> float:
    """MiB by which one call raises the resident size of this process at its peak."""
    torch.set_num_threads(1)
    torch.set_grad_enabled(False)
    encode, xyz = contenders()[name], torch.from_numpy(lidar(points))
    encode(xyz[:512])
    return peak_growth(lambda: encode(xyz)) / MIB


def row(points: int) -> Row:
    xyz, encoders = torch.from_numpy(lidar(points)), contenders()
    calls = {name: partial(encode, xyz) for name, encode in encoders.items()}
    mib = {name: in_a_process(growth, name, points) for name in encoders}
    return {"n": points, "ms": interleaved(calls, rounds=ROUNDS), "mib": mib}


def markdown(rows: list[Row]) -> str:
    """A table in which every row is set against the first of its group."""
    lines = [
        (r["n"], name, ms, ms / r["ms"]["farpoint"], peak, peak / r["mib"]["farpoint"])
        for r in rows
        for (name, ms), peak in zip(r["ms"].items(), r["mib"].values(), strict=True)
    ]
    return table(("N", "version", "ms", "times", "peak MiB", "times"), lines)


def main() -> None:
    argparse.ArgumentParser(description=__doc__.splitlines()[0]).parse_args()
    torch.set_num_threads(1)
    torch.set_grad_enabled(False)
    rows = [row(points) for points in SIZES]
    print(markdown(rows))
    write("model", {"machine": describe("torch"), "rows": rows})


if __name__ == "__main__":
    main()
