"""Benchmarks of CUDA gather, group and scatter-add against a device-to-device copy.

Rates count the bytes of the input read once and of the output written once.
"""

from collections.abc import Iterable, Iterator
from functools import partial
from typing import Any

import torch
from torch import Tensor

import farpoint_ops
from benchmarks.common.report import shown
from benchmarks.cuda.timing import Call, timed

OPS = torch.ops.farpoint
METHODS = ("rows", "vectors", "in order")
COPIED = 1 << 28
BATCH, CHANNELS, POINTS, SAMPLES, NEIGHBORS = 32, 64, 4096, 1024, 32
HITS = 6  # of a padded list, which repeats its first index after them


def copy_rate() -> float:
    """Bytes per second of a copy, read and written."""
    block = torch.empty(COPIED, device="cuda")
    other = torch.empty_like(block)
    return 2 * block.nbytes / timed(lambda: other.copy_(block))


def rate(call: Call, moved_bytes: int, copy: float) -> dict[str, float]:
    took = timed(call)
    return {
        "ms": 1e3 * took,
        "gb_per_s": moved_bytes / took / 1e9,
        "of_copy": moved_bytes / took / copy,
    }


def random_indices(batch: int, points: int, samples: int) -> Tensor:
    return torch.randint(points, (batch, samples), device="cuda", dtype=torch.int32)


def distinct_indices(batch: int, points: int, samples: int) -> Tensor:
    return torch.rand(batch, points, device="cuda").argsort(1)[:, :samples].int()


def padded_indices(batch: int, points: int, samples: int) -> Tensor:
    """Lists of a ball query around few points each."""
    lists = random_indices(batch, points, samples).view(batch, -1, NEIGHBORS)
    lists[..., HITS:] = lists[..., :1]
    return lists.flatten(1)


def gathers(_: float) -> Iterator[dict[str, Any]]:
    torch.manual_seed(0)
    copy = copy_rate()
    features = torch.randn(BATCH, CHANNELS, POINTS, device="cuda")
    idx = random_indices(BATCH, POINTS, SAMPLES * NEIGHBORS)
    pairs = idx.view(BATCH, SAMPLES, NEIGHBORS)
    few = distinct_indices(BATCH, POINTS, SAMPLES)
    calls: dict[str, tuple[Call, int]] = {
        "group_points": (lambda: farpoint_ops.group_points(features, pairs), idx.size(1)),
        "gather_points": (lambda: farpoint_ops.gather_points(features, idx), idx.size(1)),
        "gather_points of samples": (lambda: farpoint_ops.gather_points(features, few), SAMPLES),
    }
    yield shown({"what": "copy", "gb_per_s": copy / 1e9})
    for what, (call, samples) in calls.items():
        gathered = idx.element_size() + CHANNELS * features.element_size()
        moved = features.nbytes + BATCH * samples * gathered
        yield shown({"what": what, **rate(call, moved, copy)})


# (what, batch, channels, points, samples, indices)
SCATTERS = [
    ("gather of samples", 32, 64, 4096, 1024, distinct_indices),
    ("group", 32, 64, 4096, 1024 * NEIGHBORS, random_indices),
    ("group of padded lists", 32, 64, 4096, 1024 * NEIGHBORS, padded_indices),
    ("group, large clouds", 4, 64, 40_000, 10_000 * 16, random_indices),
    ("group, long rows", 1, 64, 80_000, 80_000 * 16, random_indices),
    ("gather of samples, long rows", 1, 64, 80_000, 20_000, distinct_indices),
]


def scatter_calls(values: Tensor, idx: Tensor, n: int) -> dict[str, Call]:
    """Our rule and each method that can run, and torch's own scatter-add."""
    wide = idx.long()[:, None].expand(-1, values.size(1), -1)
    calls: dict[str, Call] = {"rule": lambda: OPS.scatter_points(values, idx, n)}
    for method in METHODS:
        try:
            OPS._cuda_scatter(values, idx, n, method)
        except ValueError:  # rows too long for this method
            continue
        calls[method] = partial(OPS._cuda_scatter, values, idx, n, method)
    calls["torch"] = lambda: values.new_zeros(*values.shape[:2], n).scatter_add_(2, wide, values)
    return calls


def scatters(_: float) -> Iterable[dict[str, Any]]:
    torch.manual_seed(0)
    copy = copy_rate()
    for what, batch, channels, points, samples, make in SCATTERS:
        values = torch.randn(batch, channels, samples, device="cuda")
        idx = make(batch, points, samples)
        moved = values.nbytes + idx.nbytes + 4 * batch * channels * points
        calls = scatter_calls(values, idx, points)
        rates = {name: rate(call, moved, copy) for name, call in calls.items()}
        yield shown({"what": what, "shape": [batch, channels, points, samples], **rates})
