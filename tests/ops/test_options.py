"""Every public op with every option: compiled, exported, mapped, under autocast, on any device."""

import re
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
import torch
from tests.support import calls
from tests.support.calls import Arguments, Call, Inputs
from tests.support.repository import ROOT
from torch import Tensor, nn

import farpoint_ops
from farpoint_ops import (
    ball_query,
    count_points,
    farthest_point_sample,
    farthest_point_sample_ragged,
    gather_points,
    group_points,
    interpolate,
    knn,
    nearest_sample,
    poisson_disk_sample,
    random_sample,
    random_sample_ragged,
    voxel_grid_mean,
    voxel_grid_sample,
)

# Sentences of docs/ops.md.
NO_GENERATOR = "generator: a compiled graph has none; draw rows outside, as start"
NO_POLICY = "nonfinite: torch.vmap cannot raise the error of "
NO_LENGTHS = "radius: torch.vmap cannot return a different number of samples for each cloud"
NO_VALUES = "torch.vmap cannot read its values; give a list"
NO_GRID = "xyz: voxel grids read sizes from the data"
COMPILED = {"compile": NO_GENERATOR, "export": NO_GENERATOR}
GRID = dict.fromkeys(("compile", "export", "vmap"), NO_GRID)


def table(function: Callable[..., Any], base: Callable[[Inputs], Arguments]) -> Callable[..., Call]:
    """Makes calls of a function: `base` with the options of each."""

    def call(
        name: str,
        options: Callable[[Inputs], Arguments] = lambda _: {},
        unsupported: dict[str, str] | None = None,
        fixed: str = "",
    ) -> Call:
        return Call(
            f"{function.__name__}({name})",
            function,
            lambda x: {**base(x), **options(x)},
            unsupported or {},
            fixed,
        )

    return call


fps = table(farthest_point_sample, lambda x: {"xyz": x.cloud(), "num_samples": x.n // 5})
to_radius = table(farthest_point_sample, lambda x: {"xyz": x.cloud()})
ragged = table(
    farthest_point_sample_ragged,
    lambda x: {"xyz": x.flat(), "offsets": x.offsets(), "num_samples": x.n // 5},
)
ragged_lists = table(
    farthest_point_sample_ragged,
    lambda x: {"xyz": x.flat(), "offsets": x.offsets().tolist(), "num_samples": [3, 9, 5]},
)
poisson = table(poisson_disk_sample, lambda x: {"xyz": x.cloud(), "radius": 0.3 + x.n / 1000})
poisson_flat = table(
    poisson_disk_sample, lambda x: {"xyz": x.flat(), "radius": 0.3, "offsets": x.offsets()}
)
rows = table(random_sample, lambda x: {"xyz": x.cloud(), "num_samples": x.n // 5})
rows_flat = table(
    random_sample_ragged,
    lambda x: {"xyz": x.flat(), "offsets": x.offsets(), "num_samples": x.n // 5},
)
near = table(knn, lambda x: {"xyz": x.cloud(), "queries": x.cloud(9), "k": x.n // 8})
balls = table(
    ball_query,
    lambda x: {"xyz": x.cloud(), "centers": x.cloud(9), "radius": 0.3 + x.n / 1000, "k": x.n // 8},
)
sets = table(nearest_sample, lambda x: {"xyz": x.cloud(), "samples": x.cloud(9)})
grid = partial(
    table(voxel_grid_sample, lambda x: {"xyz": x.flat(), "voxel_size": 0.2}), unsupported=GRID
)
means = partial(
    table(voxel_grid_mean, lambda x: {"xyz": x.flat(), "voxel_size": 0.2}), unsupported=GRID
)

CALLS = [
    fps(""),
    fps("start=1", lambda _: {"start": 1}),
    fps("start=[...]", lambda _: {"start": [1, 0, 2]}, fixed="B"),
    fps("start=tensor", lambda x: {"start": x.per_cloud(0, x.n)}),
    fps("start=random", lambda _: {"start": "random"}),
    fps("generator", lambda _: {"start": "random", "generator": torch.Generator()}, COMPILED),
    fps("start=random, lengths", lambda x: {"start": "random", "lengths": x.per_cloud(20, 40)}),
    fps("lengths=[...]", lambda _: {"lengths": [40, 30, 20]}, fixed="B"),
    fps("nonfinite=last", lambda _: {"nonfinite": "last"}),
    fps("nonfinite=reject", lambda _: {"nonfinite": "reject"}, {"vmap": NO_POLICY}),
    fps("nonfinite=ignore", lambda _: {"nonfinite": "ignore"}, {"vmap": NO_POLICY}),
    fps("return_distances", lambda _: {"return_distances": True, "start": "random"}),
    fps("radius", lambda x: {"radius": 0.3 + x.n / 1000}, {"vmap": NO_LENGTHS}),
    *(
        to_radius(
            f"radius={form}, max_samples",
            lambda x, radius=radius: {"radius": radius(x), "max_samples": x.n // 4},
            fixed=fixed,
        )
        for form, radius, fixed in (
            ("number", lambda x: 0.3 + x.n / 1000, ""),
            ("[...]", lambda _: [0.3, 0.4, 0.2], "B"),
            ("0-d tensor", lambda x: x.values() + 0.1, ""),
            ("tensor", lambda x: x.values(x.b) + 0.1, ""),
        )
    ),
    to_radius(
        "radius, lengths",
        lambda x: {"radius": 0.3, "lengths": x.per_cloud(20, 40)},
        {"vmap": NO_LENGTHS},
    ),
    ragged(""),
    ragged("start=1", lambda _: {"start": 1}),
    ragged("start=tensor", lambda x: {"start": x.per_cloud(0, x.n)}),
    ragged("start=random", lambda _: {"start": "random", "return_distances": True}),
    ragged("generator", lambda _: {"start": "random", "generator": torch.Generator()}, COMPILED),
    ragged("num_samples=tensor", lambda x: {"num_samples": x.per_cloud(3, 9)}, {"vmap": NO_VALUES}),
    ragged("radius", lambda _: {"radius": 0.4}, {"vmap": NO_LENGTHS}),
    ragged("radius=tensor", lambda x: {"radius": x.values(x.b)}, {"vmap": NO_LENGTHS}),
    ragged("nonfinite=last", lambda _: {"nonfinite": "last"}),
    ragged("nonfinite=reject", lambda _: {"nonfinite": "reject"}, {"vmap": NO_POLICY}),
    ragged("nonfinite=ignore", lambda _: {"nonfinite": "ignore"}, {"vmap": NO_POLICY}),
    ragged_lists("lists", lambda _: {"start": [1, 0, 2]}, fixed="BN"),
    ragged_lists(
        "lists, radius", lambda _: {"radius": [0.3, 0.4, 0.2]}, {"vmap": NO_LENGTHS}, fixed="BN"
    ),
    poisson("", unsupported={"vmap": NO_LENGTHS}),
    poisson("max_samples", lambda x: {"max_samples": x.n // 4, "start": "random"}),
    poisson(
        "generator",
        lambda _: {"start": "random", "generator": torch.Generator()},
        {**COMPILED, "vmap": NO_LENGTHS},
    ),
    poisson("start=1", lambda _: {"start": 1}, {"vmap": NO_LENGTHS}),
    poisson("start=[...]", lambda _: {"start": [1, 0, 2]}, {"vmap": NO_LENGTHS}, fixed="B"),
    poisson("start=tensor", lambda x: {"start": x.per_cloud(0, x.n)}, {"vmap": NO_LENGTHS}),
    poisson("radius=[...]", lambda _: {"radius": [0.3, 0.4, 0.2]}, {"vmap": NO_LENGTHS}, fixed="B"),
    poisson("radius=tensor", lambda x: {"radius": x.values(), "max_samples": 9}),
    poisson_flat("offsets", unsupported={"vmap": NO_VALUES}),
    poisson_flat(
        "offsets=[...]", lambda x: {"offsets": x.offsets().tolist()}, {"vmap": NO_LENGTHS}, "BN"
    ),
    rows(""),
    rows("seed=number", lambda x: {"seed": x.n}),
    rows("seed=[...]", lambda _: {"seed": [2**64 - 1, 2, 3]}, fixed="B"),
    rows("seed=tensor", lambda x: {"seed": x.per_cloud(0, 2**40)}),
    rows("lengths", lambda x: {"lengths": x.per_cloud(20, 40)}),
    rows("lengths=[...]", lambda _: {"lengths": [40, 30, 20]}, fixed="B"),
    rows_flat("", lambda _: {"seed": 3}),
    rows_flat("seed=tensor", lambda x: {"seed": x.per_cloud(0, 2**40)}),
    rows_flat(
        "num_samples=tensor", lambda x: {"num_samples": x.per_cloud(3, 9)}, {"vmap": NO_VALUES}
    ),
    rows_flat(
        "lists",
        lambda x: {"offsets": x.offsets().tolist(), "num_samples": [3, 9, 5], "seed": [1, 2, 3]},
        fixed="BN",
    ),
    near(""),
    near("k above N at first", lambda _: {"k": 50}),
    near("k above N, gradients", lambda x: {"xyz": x.cloud().requires_grad_(), "k": 50}),
    near("lengths", lambda x: {"lengths": x.per_cloud(1, 40)}),
    near("lengths=[...]", lambda _: {"lengths": [40, 1, 20]}, fixed="B"),
    balls(""),
    balls("min_radius", lambda x: {"min_radius": x.n / 1000}),
    *(
        balls(
            f"radius={form}, lengths",
            lambda x, radius=radius: {
                **{"radius": radius(x) + 0.5, "min_radius": radius(x) / 3},
                "lengths": x.per_cloud(1, 40),
            },
        )
        for form, radius in (("0-d tensor", Inputs.values), ("tensor", lambda x: x.values(x.b)))
    ),
    balls("lists", lambda _: {"radius": [0.3, 0.4, 0.5], "lengths": [40, 1, 20]}, fixed="B"),
    balls("min_radius=[...]", lambda _: {"min_radius": [0.1, 0.2, 0.0]}, fixed="B"),
    sets(""),
    sets("lengths", lambda x: {"lengths": x.per_cloud(0, 40), "sample_lengths": x.per_cloud(0, 9)}),
    sets("lists", lambda _: {"lengths": [40, 0, 20], "sample_lengths": [9, 0, 3]}, fixed="B"),
    table(count_points, lambda x: {"assignment": x.idx(9, x.n), "num_samples": 9})(""),
    table(gather_points, lambda x: {"features": x.values(x.b, 5, x.n), "idx": x.idx(x.n, 7)})(""),
    table(group_points, lambda x: {"features": x.values(x.b, 5, x.n), "idx": x.idx(x.n, 7, 2)})(""),
    table(
        interpolate,
        lambda x: {
            **{"features": x.values(x.b, 5, 9), "idx": x.idx(9, x.n, 3)},
            "weight": x.values(x.b, x.n, 3),
        },
    )(""),
    *(
        call(name, options)
        for call in (grid, means)
        for name, options in (
            ("", lambda _: {}),
            ("offsets", lambda x: {"offsets": x.offsets(), "origin": (0.1, 0.2, 0.3)}),
            ("voxel_size=tensor", lambda x: {"offsets": x.offsets(), "voxel_size": x.values(x.b)}),
            ("voxel_size=0-d tensor", lambda x: {"voxel_size": x.values()}),
            ("lists", lambda x: {"offsets": x.offsets().tolist(), "voxel_size": [0.1, 0.2, 0.3]}),
        )
    ),
    grid("select=first", lambda _: {"select": "first"}),
    grid("select=nearest_mean", lambda _: {"select": "nearest_mean"}),
]
torch.fx.wrap("knn")
every_call = pytest.mark.parametrize("call", CALLS, ids=str)
# A graph takes seconds: without -m slow, of the first call of each function alone.
FIRST = {call.function: call for call in reversed(CALLS)}.values()
every_graph = pytest.mark.parametrize(
    "call",
    [pytest.param(c, id=str(c), marks=[] if c in FIRST else pytest.mark.slow) for c in CALLS],
)


def test_every_option_of_every_op_is_in_the_table() -> None:
    assert not calls.missing_options(
        CALLS, (getattr(farpoint_ops, n) for n in farpoint_ops.__all__)
    )


def test_the_page_has_every_sentence() -> None:
    listed = re.findall(
        r"^\| .* \| `([^`]*)`… \|$", (ROOT / "docs/ops.md").read_text(), re.MULTILINE
    )
    assert set(listed) == {sentence for call in CALLS for sentence in call.unsupported.values()}


@every_graph
def test_one_graph_serves_every_size(call: Call) -> None:
    calls.ends_with_the_sentence(call, "compile", calls.compile_once)


@every_graph
def test_one_program_serves_every_size(call: Call) -> None:
    calls.ends_with_the_sentence(call, "export", calls.export_once)


@every_call
@pytest.mark.filterwarnings("ignore:torch.searchsorted:UserWarning")  # of what vmap expands
def test_vmap_is_a_loop(call: Call) -> None:
    calls.ends_with_the_sentence(call, "vmap", calls.vmap_is_a_loop)


@every_call
def test_autocast_changes_nothing(call: Call) -> None:
    calls.autocast_changes_nothing(call)


@every_call
def test_no_tensor_is_made_on_the_default_device(call: Call) -> None:
    calls.no_tensor_on_the_default_device(call)


def test_symbolic_trace_keeps_a_wrapped_op_and_names_the_way_for_others() -> None:
    class Search(nn.Module):
        def forward(self, xyz: Tensor) -> Tensor:
            return knn(xyz, xyz, 2)[1]

    class Sample(nn.Module):
        def forward(self, xyz: Tensor) -> Tensor:
            return farthest_point_sample(xyz, 2)

    xyz = torch.rand(1, 9, 3)
    assert torch.equal(torch.fx.symbolic_trace(Search())(xyz), Search()(xyz))
    with pytest.raises(
        TypeError, match=r"xyz: expected a torch\.Tensor, got Proxy; torch\.fx\.wrap"
    ):
        torch.fx.symbolic_trace(Sample())


@pytest.mark.filterwarnings("ignore:`torch.jit.trace` is deprecated")
def test_jit_trace_warns_that_a_size_becomes_a_constant() -> None:
    def quarter(xyz: Tensor) -> Tensor:
        return farthest_point_sample(xyz, xyz.size(1) // 4)

    with pytest.warns(torch.jit.TracerWarning, match="Converting a tensor to a Python integer"):
        torch.jit.trace(quarter, (torch.rand(1, 8, 3),))


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # inside torch
@pytest.mark.filterwarnings("ignore::FutureWarning")
@pytest.mark.parametrize("wrap", [float, lambda r: [r, r]], ids=["number", "list"])
def test_inductor_never_takes_the_radius_of_another_step(wrap: Callable[[float], Any]) -> None:
    """A radius computed from a number that the graph uses too: its cache knows graphs by code."""

    def search(xyz: Tensor, scale: float) -> tuple[Tensor, Tensor]:
        return ball_query(xyz, xyz, wrap(0.5 * scale), 16)[1], xyz * scale

    xyz = Inputs(2, 60).cloud()
    for _ in range(2):
        torch._dynamo.reset()
        compiled = torch.compile(search, fullgraph=True)
        for scale in (0.3, 0.5, 0.7, 0.9):
            assert torch.equal(compiled(xyz, scale)[0], search(xyz, scale)[0])
