"""The drop-ins in compiled, exported and scripted code, and under another default device."""

import io
from typing import Any

import pytest
import torch
from tests.ops.compat.registry import CALLS, FLAT, Call, tensors_of
from torch import Tensor, nn

from farpoint_ops.compat import torch_cluster

SIZES = [(2, 12), (3, 17), (4, 20)]
# The others are compiled with -m slow: a graph takes a second.
QUICK = "torch_cluster.fps", "torch_cluster.radius", "pytorch3d.sample", "pointnet2_stack.ball"
CAPTURED = [
    pytest.param(call, id=name, marks=[] if name.startswith(QUICK) else pytest.mark.slow)
    for name, call in CALLS.items()
]


def same(actual: Any, expected: Any) -> None:
    for a, e in zip(tensors_of(actual), tensors_of(expected), strict=True):
        torch.testing.assert_close(a, e, equal_nan=True)


@pytest.mark.parametrize("call", CAPTURED)
def test_one_graph_takes_any_batch(call: Call) -> None:
    torch._dynamo.reset()
    graphs: list[Any] = []

    def count(graph: Any, _: Any) -> Any:
        graphs.append(graph)
        return graph.forward

    compiled = torch.compile(call.function, fullgraph=True, backend=count)
    with torch._dynamo.config.patch(capture_dynamic_output_shape_ops=True):
        for b, n in SIZES:
            arguments = call.arguments(b, n)
            same(compiled(**arguments), call.function(**arguments))
    assert len(graphs) <= 2


@pytest.mark.parametrize("call", CAPTURED)
def test_an_exported_program_takes_any_batch(call: Call) -> None:
    class Model(nn.Module):
        def forward(self, tensors: dict[str, Tensor]) -> Any:
            return call.function(**example | tensors)

    def tensors_in(arguments: dict[str, Any]) -> dict[str, Tensor]:
        return {name: t for name, t in arguments.items() if isinstance(t, Tensor)}

    example, other = call.arguments(2, 12), call.arguments(3, 15)
    free = {
        name: {d: torch.export.Dim.AUTO for d, n in enumerate(t.shape) if n != other[name].size(d)}
        for name, t in tensors_in(example).items()
    }
    program = torch.export.export(
        Model(), (tensors_in(example),), dynamic_shapes=(free,), strict=False
    )
    for b, n in SIZES:
        arguments = call.arguments(b, n)
        same(program.module()(tensors_in(arguments)), call.function(**arguments))


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
def test_the_default_device_does_not_matter(call: Call) -> None:
    arguments = call.arguments(2, 12)
    expected = call.function(**arguments)
    with torch.device("cuda:99"):  # where a tensor is an error
        same(call.function(**arguments), expected)


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
def test_coordinates_of_two_dtypes_are_computed_in_the_wider_one(call: Call) -> None:
    arguments = call.arguments(2, 12)
    for name in {"new_xyz", "known", "y", "p1", "query"} & arguments.keys():
        if arguments[name] is not None:
            narrow = arguments[name].bfloat16()
            with torch.autocast("cpu", torch.bfloat16):
                mixed = call.function(**arguments | {name: narrow})
            same(mixed, call.function(**arguments | {name: narrow.float()}))


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
    arguments = next(c for c in FLAT if c.name == "torch_cluster.fps").arguments(2, 12)
    x, batch = arguments["src"], arguments["batch"]
    for actual, expected in zip(loaded(x, batch), scriptable(x, batch), strict=True):
        assert torch.equal(actual, expected)
