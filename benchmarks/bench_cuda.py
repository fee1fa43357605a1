"""CUDA kernels on the GPU at hand: latencies, sampling against its baseline, gather and group.

Warm, synchronized, medians of CUDA event times. Sampling is compared per step: a kernel that looks
at every point in every step takes as long for each, so a slow one may be timed over fewer samples
("samples" in the results). Writes benchmarks/results/cuda_<device>.json.

    python benchmarks/bench_cuda.py [--quick]
"""

import argparse
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "server"))

import cuda_library
import cuda_peers
import torch
from cuda_timing import Call, Sampler, step_microseconds, timed
from machine import describe
from point_sets import cube, lidar

import farpoint_ops

RESULTS = Path(__file__).parent / "results"
# (points, samples), one cloud.
SIZES = [
    *((1024, 256), (4096, 1024), (8192, 2048), (16384, 4096), (32768, 8192)),
    *((65536, 16384), (131072, 16384), (262144, 16384), (1048576, 16384), (4194304, 16384)),
]
BATCHED = [(1024, 256), (4096, 1024), (16384, 4096), (65536, 16384)]
BATCHES = [16, 32, 128]
MOST_LIDAR_POINTS = 1 << 20  # casting more rays takes longer than measuring
METHODS = ("block", "grid", "cluster", "lazy", "lazy_sorted")
# What the model of docs/performance_cuda.md assumes: (operation, size) to cycles.
LATENCIES = {("redux", 32): 25, ("barrier", 128): 30, ("mail", 8): 220, ("grid", 0): 1400}


def forced(method: str, head_points: int = 0) -> Sampler:
    return lambda xyz, m: torch.ops.farpoint._cuda_fps(xyz, m, method, head_points)


def clouds(shape: Callable[[int], Any], n: int, batch: int) -> torch.Tensor:
    return torch.from_numpy(shape(n)).cuda().expand(batch, -1, -1).contiguous()


def step_or_none(method: str, xyz: torch.Tensor, m: int) -> dict[str, Any] | None:
    try:
        return step_microseconds(forced(method), xyz, m)
    except ValueError:  # the kernel does not take clouds of this size
        return None


def sampling(name: str, xyz: torch.Tensor, m: int, peers: dict[str, Any]) -> dict[str, Any]:
    results = {"farpoint": step_microseconds(farpoint_ops.furthest_point_sample, xyz, m)}
    results |= {n: step_microseconds(sampler, xyz, m) for n, sampler in peers.items()}
    ours = results["farpoint"]["us_per_step"]
    ratios = {n: r["us_per_step"] / ours for n, r in results.items()}
    row = {"shape": name, "batch": xyz.size(0), "points": xyz.size(1), "samples": m}
    print(json.dumps(row | {n: round(r["us_per_step"], 3) for n, r in results.items()}), flush=True)
    return row | {"results": results, "ratios": ratios}


def all_sampling(quick: bool) -> list[dict[str, Any]]:
    peers = {"one_block": cuda_library.one_block_fps, **cuda_peers.samplers()}
    rows = []
    for n, m in SIZES[:6] if quick else SIZES:
        for shape in (lidar, cube) if n <= MOST_LIDAR_POINTS else (cube,):
            xyz = clouds(shape, n, 1)
            row = sampling(shape.__name__, xyz, m, peers)
            rows.append(row | {"methods": {name: step_or_none(name, xyz, m) for name in METHODS}})
    for n, m in BATCHED[:2] if quick else BATCHED:
        rows += [sampling("lidar", clouds(lidar, n, b), m, peers) for b in BATCHES]
    return rows


def head_sizes() -> list[dict[str, Any]]:
    """The lazy head with other heads, to set fps_lazy_head_points by."""
    rows = []
    for n, m in ((16384, 4096), (262144, 16384)):
        xyz = clouds(lidar, n, 1)
        for points in (512, 1024, 1536, 1792):
            step = step_microseconds(forced("lazy", points), xyz, m)["us_per_step"]
            rows.append({"points": n, "samples": m, "head_points": points, "us_per_step": step})
    return rows


def latencies() -> list[dict[str, Any]]:
    processors = torch.cuda.get_device_properties(0).multi_processor_count
    rows = []
    for (what, size), assumed in LATENCIES.items():
        if what == "mail" and torch.cuda.get_device_capability()[0] < 9:
            continue
        measured = cuda_library.latency_cycles(what, size or processors)
        rows.append({"what": what, "size": size or processors, "assumed": assumed})
        rows[-1]["cycles"] = measured
        print(json.dumps(rows[-1]), flush=True)
    return rows


def bandwidth(moved_bytes: int, call: Call, copy: float) -> dict[str, float]:
    rate = moved_bytes / timed(call)
    return {"gb_per_s": rate / 1e9, "of_copy": rate / copy}


def gathers() -> dict[str, Any]:
    """Bytes of input read once and output written once, against a copy on the same device."""
    generator = torch.Generator("cuda").manual_seed(0)
    block = torch.empty(1 << 28, device="cuda")
    other = torch.empty_like(block)
    copy = 2 * block.nbytes / timed(lambda: other.copy_(block))
    features = torch.randn(32, 64, 4096, device="cuda", generator=generator)
    idx = torch.randint(4096, (32, 1024, 32), device="cuda", generator=generator, dtype=torch.int32)
    grouped = farpoint_ops.group_points(features, idx)
    read = features.nbytes + idx.nbytes
    results: dict[str, Any] = {"copy_gb_per_s": copy / 1e9}
    group = lambda: farpoint_ops.group_points(features, idx)  # noqa: E731
    results["group_points"] = bandwidth(read + grouped.nbytes, group, copy)
    flat = idx.flatten(1)
    gather = lambda: farpoint_ops.gather_points(features, flat)  # noqa: E731
    results["gather_points"] = bandwidth(read + grouped.nbytes, gather, copy)
    values = grouped.flatten(2)
    scatter = lambda: torch.ops.farpoint.scatter_points(values, flat, 4096)  # noqa: E731
    results["scatter_points"] = bandwidth(read + values.nbytes, scatter, copy)
    print(json.dumps(results), flush=True)
    return results


def device() -> dict[str, Any]:
    properties = torch.cuda.get_device_properties(0)
    return {
        "name": properties.name,
        "processors": properties.multi_processor_count,
        "cuda": torch.version.cuda,
        **describe("torch"),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="clouds up to 65 536 points")
    quick = parser.parse_args().quick
    if not torch.cuda.is_available():
        raise SystemExit("bench_cuda: torch sees no CUDA device")
    results = {"device": device(), "latencies": latencies(), "gather": gathers()}
    results |= {"sampling": all_sampling(quick), "head_sizes": head_sizes()}
    RESULTS.mkdir(exist_ok=True)
    name = results["device"]["name"].lower().replace(" ", "_")
    target = RESULTS / f"cuda_{name}.json"
    target.write_text(json.dumps(results, indent=1) + "\n")
    print(target)


if __name__ == "__main__":
    main()
