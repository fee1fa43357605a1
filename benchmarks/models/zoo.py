"""Calls a second of small served architectures over those of eager PyTorch in a loop.

    python -m benchmarks.models.zoo [--by 4] [--rounds 3] [--seconds 1] [--callers 8] [NAME ...]

Prints a table. Callers are threads of this process, on the cores of the server. Rounds of the loop
and of the server alternate; figures are medians. Random weights, clouds of
1,024 points; the loop has one thread. `--by` multiplies channels and samples of the models that
take such a factor: those of the tests are smaller than published ones.
"""

import argparse
import inspect
import os
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

import torch
from tests.models.zoo.entries import ZOO, Entry, check, eager, request

import farpoint
import farpoint.testing
from farpoint_models.programs import Manifest, Role, TensorSpec
from farpoint_models.programs.export import export_program

POINTS = 1024
TRIVIAL = "a linear layer"


class Linear(torch.nn.Module):
    """As little as a model can be: what is left is the server."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = torch.nn.Linear(3, 4)

    def forward(self, xyz: torch.Tensor) -> torch.Tensor:
        found: torch.Tensor = self.layer(xyz).amax(1)
        return found


def entries(by: int = 1) -> dict[str, Entry]:
    """The zoo, for clouds of any size; `by` times as large if that is not 1, what can be."""
    xyz, logits = (
        TensorSpec("xyz", Role.POINTS, "float32", ("B", "N", 3)),
        TensorSpec("logits", Role.PER_CLOUD, "float32", ("B", 4)),
    )
    trivial = Entry(Linear, Manifest(ZOO["dgcnn"].manifest.batching, (xyz,), (logits,)))
    found = {TRIVIAL: trivial, **ZOO}
    if by != 1:
        found = {n: e for n, e in found.items() if "by" in inspect.signature(e.make).parameters}
    for name, entry in found.items():
        limits = {key: (by * least, None) for key, (least, _) in entry.manifest.limits.items()}
        make = entry.make if by == 1 else partial(entry.make, by)
        found[name] = replace(entry, make=make, manifest=replace(entry.manifest, limits=limits))
    return found


def rate(call: Callable[[], Any], seconds: float) -> float:
    """Calls a second."""
    begun, count = time.perf_counter(), 0
    while (passed := time.perf_counter() - begun) < seconds:
        call()
        count += 1
    return count / passed


def served(call: Callable[[], Any], callers: int, seconds: float) -> float:
    """Calls a second of all callers."""
    with ThreadPoolExecutor(callers) as pool:
        return sum(pool.map(lambda _: rate(call, seconds), range(callers)))


def cpu_s(pid: int) -> float:
    """Seconds of CPU that a process has used."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def measure(name: str, entry: Entry, options: argparse.Namespace, folder: Path) -> str:
    """One row of the table."""
    module, path = entry.module(), folder / "model.pt2"
    manifest = export_program(module, entry.manifest, path).manifest
    inputs = request(manifest, POINTS, 0, own=POINTS)
    expected = eager(module, manifest, inputs)
    flags = ("--encoder=none", f"--model=m={path}")
    loops, ones, many, cpu_ms = [], [], [], []
    with farpoint.testing.serve(*flags) as server, farpoint.Client(server.address) as client:

        def call() -> farpoint.Inference:
            return client.infer("m", inputs)

        check(call(), expected)
        for _ in range(options.rounds):
            loops.append(rate(lambda: eager(module, manifest, inputs), options.seconds))
            ones.append(rate(call, options.seconds))
            before = cpu_s(server.process.pid)
            many.append(served(call, options.callers, options.seconds))
            used = cpu_s(server.process.pid) - before
            cpu_ms.append(1e3 * used / (many[-1] * options.seconds))
    loop = median(loops)
    return (
        f"| {name} | {manifest.batching.value} | {loop:.0f} | {median(ones) / loop:.2f} | "
        f"{median(many) / loop:.2f} | {median(cpu_ms):.2f} ms |"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*")
    parser.add_argument("--by", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=1.0)
    parser.add_argument("--callers", type=int, default=8)
    options = parser.parse_args()
    torch.set_num_threads(1)
    many = f"{options.callers} callers"
    print(f"| | batching | loop, calls/s | 1 caller | {many} | server CPU a call |")
    print("|---|---|---|---|---|---|")
    for name, entry in entries(options.by).items():
        if not options.names or name in options.names:
            with tempfile.TemporaryDirectory() as folder:
                print(measure(name, entry, options, Path(folder)), flush=True)


if __name__ == "__main__":
    main()
