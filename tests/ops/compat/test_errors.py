"""Errors of the drop-ins, and memory that follows the answer."""

import re
import subprocess
import sys
from collections.abc import Callable
from inspect import isfunction, signature
from typing import Any

import pytest
import torch
from tests.ops.compat.registry import CALLS, MODULES
from tests.ops.test_errors import cases, expect_error
from tests.support.calls import Call, Inputs
from torch import Tensor, nn

ERRORS = TypeError, ValueError, IndexError
# What these return has a place for each point or cloud that the argument counts.
COUNTED = "pointops.offset2batch", "pointops.batch2offset"
# Not looked at, for the sake of the original's signature.
IGNORED = {"num_workers", "version", "return_sorted"}


def wrong(value: Any, *, large: bool) -> list[Any]:
    """Values of other types, ranks, sizes, dtypes and ranges than a right one."""
    texts = ["text", [[1]], object()]
    if not isinstance(value, Tensor):
        return [*texts, torch.rand(2), -1, 0, float("nan")][: None if value else 4]
    others = [value[None], value[..., :-1], value[:-1], value[:0], torch.cat([value, value])]
    cast = value.long() if value.is_floating_point() else value.float()
    beyond = [value + (1 << 40)] if large else []
    return [*texts, *others, cast, value.bool(), value.flip(0) * -3, *beyond]


def said(function: Callable[..., Any], arguments: dict[str, Any]) -> str | None:
    """The words of an error, or None for an answer."""
    try:
        function(**arguments)
    except ERRORS as error:
        return str(error)
    return None


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
def test_an_error_names_an_argument(call: Call) -> None:
    names = set(signature(call.function).parameters)
    right = call.make(Inputs(2, 12))
    assert said(call.function, right) is None
    unseen = {"new_xyz"} if "GroupAll" in call.name else IGNORED
    for name in names - unseen:
        for value in wrong(right.get(name), large=call.name not in COUNTED):
            message = said(call.function, right | {name: value})
            what = f"{call.name}({name}={value!r}) says {message}"
            assert message or not isinstance(value, str), what
            if message:
                subject, _, rest = message.partition(":")
                assert set(subject.split(", ")) <= names, what
                assert re.search(r"expected .*(, got |where idx is None)", rest, re.DOTALL), what


def test_every_function_has_a_call() -> None:
    aliases = {vars(m)[n] for m in MODULES for n in vars(m) if not n.startswith("_")}
    ours = {
        f"{value.__module__.rsplit('compat.', 1)[-1]}.{value.__qualname__}"
        for value in aliases
        if isfunction(value) or (isinstance(value, type) and issubclass(value, nn.Module))
        if re.match(r"farpoint_ops\.compat\.(?!_)|.*GroupAll", value.__module__)
    }
    assert ours <= {name.removesuffix(".forward") for name in CALLS}


WRONG = """
pointnet2.QueryAndGroup(0.0, 4) -> ValueError: radius: expected a positive number, got 0
pointnet2_stack.QueryAndGroup(0.5, 0) -> ValueError: nsample: expected at least 1, got 0
batched.QueryAndGroup(4, 0.5) -> TypeError: nsample: expected int, got 0.5
pointnet2.QueryAndGroup(1.0, 2, ret_unique_cnt=True) -> ValueError: ret_unique_cnt: expected sample
pointnet2.QueryAndGroup(1.0, 2, False)(x, x) -> ValueError: features: ... where use_xyz is False
pointnet2_stack.QueryAndGroup(1.0, 2, False)(flat, two, flat, two) -> ValueError: features: expected
pointnet2_stack.stack_farthest_point_sample(flat, two[:1], 3) -> ValueError: ... up to 40, got [20]
pointops.knn_query(3, flat, ends[:1]) -> ValueError: offset: ...rise to 40...got [20]
pointops.knn_query(3, flat, ends, flat, ends[1:]) -> ValueError: new_offset: ...with B = 2, got [1]
pointops.knn_query_and_group(flat, flat) -> ValueError: nsample, offset: expected both where idx
pointops.ball_query(3, 0.1, 0.2, flat, ends) -> ValueError: min_radius: expected less than max
pointops.query_and_group(3, flat, None, flat, None, ends, ends, 1) -> ValueError: dilation: exp
pointops.KNNQuery.apply(4, flat, flat, ends, ends) -> TypeError: offset: expected int32 or int64
pointops.furthestsampling(x, 9) -> TypeError: new_offset
pointops.knnquery(4, x, x) -> TypeError: offset
pointops.interpolation(x.mT, rows, rows.float()) -> TypeError: offset
pointops.grouping(x.mT, rows) -> ValueError: feat: expected shape (n, c), got [2, 3, 20]
torch_cluster.fps(flat, two) -> ValueError: batch: expected shape (40,), got [2]
torch_cluster.knn(flat, flat, 1, order) -> ValueError: batch_x: expected clouds one behind the other
torch_cluster.nearest(flat, flat[20:], order.sort()[0], two[:0].new_ones(20)) -> ValueError: batch_y
torch_cluster.knn_graph(flat, 1, flow="up") -> ValueError: flow: expected source_to_target
torch_cluster.knn(flat, flat) -> TypeError: missing ... 'k'
pytorch3d.knn_gather(x) -> TypeError: missing ... 'idx'
pytorch3d.knn_points(x, x, two + 1) -> ValueError: lengths1: expected values of 0 to 20, got
pytorch3d.knn_points(x, x, norm=1) -> ValueError: norm: expected 2, got 1
torch_cluster.knn_graph(flat, 1, cosine=True) -> ValueError: cosine: expected False, got True
pytorch3d.sample_farthest_points(x, K=[1]) -> ValueError: K: expected 2 values, one per cloud, got 1
knn_cuda.KNN(21, True)(x, x) -> ValueError: ref: expected at least k = 21 points, got 20
"""


@pytest.mark.parametrize("line", cases(WRONG))
def test_a_bad_argument_is_named(device: torch.device, line: str) -> None:
    """Of a call, of a module that its forward could not use, of another library's order."""
    x = torch.rand(2, 20, 3, device=device)
    integers = {"two": [20, 20], "ends": [20, 40], "order": [0, 1] * 20, "rows": [[[0, 1]]]}
    names = {name: torch.tensor(values, device=device) for name, values in integers.items()}
    libraries = {module.__name__.split(".")[-1]: module for module in MODULES}
    expect_error(line, {**libraries, **names, "x": x, "flat": x.flatten(0, 1)})


PROGRAM = """
import resource, sys, torch, farpoint_ops
from farpoint_ops.compat import knn_cuda, pointnet2_stack, pytorch3d, torch_cluster
x = torch.rand(50, 3, generator=torch.Generator().manual_seed(0))
wide = torch.rand(300, 1024, generator=torch.Generator().manual_seed(0))
many = 2**31 - 1
torch_cluster.knn(wide[:4], wide[:4], 2), torch_cluster.radius_graph(x, 0.1)  # threads, libraries
used = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (used + (200 << 20),) * 2)
for line in sys.argv[1].splitlines():
    try:
        said = eval(line)
    except RuntimeError as error:
        said = str(error)
    print("right" if said is True or torch.is_tensor(said) and bool(said) else f"{line}: {said}")
"""
# A line is true for the right answer. Pairs of `wide` times their dimensions are 369 MB.
LINES = """
torch_cluster.radius(x, x[:5], 0.5, None, None, many).equal(near(x, x[:5]))
torch_cluster.radius(x, x[:5], 0.5, None, None, 1000).equal(near(x, x[:5]))
torch_cluster.radius_graph(x, 0.5, None, True, many).equal(near(x, x).flip(0))
torch_cluster.radius(wide, wide, 12.9, None, None, many, 1, None, True).size(1) > 0
torch_cluster.knn(x, x[:5], many).shape == (2, 250)
torch_cluster.knn_graph(x, many).shape == (2, 50 * 49)
torch_cluster.knn_graph(wide, 4).shape == (2, 1200)
torch_cluster.fps(x, torch.arange(2).repeat_interleave(25) * 2**40).shape == (26,)
torch_cluster.fps(x, batch_size=2**40).shape == (25,)
pytorch3d.knn_points(wide[None], wide[None], K=4).idx.shape == (1, 300, 4)
pytorch3d.knn_points(x[None, :1], x[None], K=1 << 20).idx[0, 0, 50:].any() == False
pytorch3d.ball_query(x[None, :1], x[None], K=1 << 20, return_nn=False).idx.max() < 50
knn_cuda.KNN(4, True)(wide[None], wide[None])[1].shape == (1, 300, 4)
farpoint_ops.knn(x[None], x[None, :1], 1 << 22)[0].max() < 50
farpoint_ops.ball_query(x[None], x[None, :1], 0.5, 1 << 22)[0].max() < 50
farpoint_ops.voxel_grid_sample(x, 1e-7)[0].shape == (50,)
"""
NEAR = "near = lambda x, y: ((y[:, None] - x).square().sum(-1) < 0.25).nonzero().T\n"


@pytest.mark.skipif(sys.platform != "linux", reason="the size of a process is Linux's")
def test_a_call_needs_no_more_than_its_answer() -> None:
    lines = LINES.strip()
    run = subprocess.run(
        [sys.executable, "-c", NEAR + PROGRAM, lines], capture_output=True, text=True, check=False
    )
    assert run.stdout.splitlines() == ["right"] * len(lines.splitlines()), run.stderr
