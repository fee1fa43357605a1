"""The drop-ins in compiled, exported and scripted code, and under another default device."""

import io

import pytest
import torch
from tests.ops.compat.registry import CALLS
from tests.support import calls
from tests.support.calls import Call, Inputs
from torch import Tensor

from farpoint_ops.compat import torch_cluster

# The others are compiled with -m slow: a graph takes a second.
QUICK = "torch_cluster.fps", "torch_cluster.radius", "pytorch3d.sample", "pointnet2_stack.ball"
every_call = pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
every_graph = pytest.mark.parametrize(
    "call",
    [
        pytest.param(call, id=name, marks=[] if name.startswith(QUICK) else pytest.mark.slow)
        for name, call in CALLS.items()
    ],
)


@every_graph
def test_one_graph_serves_every_size(call: Call) -> None:
    calls.compile_once(call, more=[(5, 47)], graphs=2)  # the first may be of its numbers alone


@every_graph
def test_one_program_serves_every_size(call: Call) -> None:
    calls.export_once(call)


@every_call
def test_no_tensor_is_made_on_the_default_device(call: Call) -> None:
    calls.no_tensor_on_the_default_device(call)


@every_call
def test_coordinates_of_two_dtypes_are_computed_in_the_wider_one(call: Call) -> None:
    arguments = call.make(Inputs(2, 12))
    for name in {"new_xyz", "known", "y", "p1", "query"} & arguments.keys():
        if arguments[name] is not None:
            narrow = arguments[name].bfloat16()
            with torch.autocast("cpu", torch.bfloat16):
                mixed = call(arguments | {name: narrow})
            torch.testing.assert_close(mixed, call(arguments | {name: narrow.float()}))


def scriptable(x: Tensor, batch: Tensor) -> list[Tensor]:
    return [
        torch_cluster.fps(x, batch, 0.3, False),
        torch_cluster.fps(x, None, torch.full([2], 0.3), False, 2, [0, 12, 24]),
        torch_cluster.knn(x, x, 2, batch, batch),
        torch_cluster.radius(x, x, 0.4, batch, batch),
        torch_cluster.knn_graph(x, 2, batch),
        torch_cluster.radius_graph(x, 0.4, batch, flow="target_to_source"),
        torch_cluster.nearest(x, x, batch, batch),
        torch_cluster.grid_cluster(x, torch.full([3], 0.3)),
    ]


@pytest.mark.filterwarnings("ignore:`torch.jit.*` is deprecated")
def test_scripted_code_may_call_torch_cluster_and_be_saved() -> None:
    scripted = torch.jit.script(scriptable)  # type: ignore[no-untyped-call]
    file = io.BytesIO()
    torch.jit.save(scripted, file)  # type: ignore[no-untyped-call]
    file.seek(0)
    loaded = torch.jit.load(file)  # type: ignore[no-untyped-call]
    arguments = CALLS["torch_cluster.fps"].make(Inputs(2, 12))
    x, batch = arguments["src"], arguments["batch"]
    for actual, expected in zip(loaded(x, batch), scriptable(x, batch), strict=True):
        assert torch.equal(actual, expected)
