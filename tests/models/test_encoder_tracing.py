"""A forward never waits for the device and never touches the allocator; it compiles and exports."""

import io
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils._python_dispatch import TorchDispatchMode

from farpoint_models import DensityEncoder, EncodedStage, EncoderConfig

CONFIG = EncoderConfig(rates=(0.25, 0.5), channels=8, hidden=8, neighbors=8, groups=2)
# Ops whose result, or its shape, the host has to wait for.
WAITING = {
    "_local_scalar_dense",
    "is_nonzero",
    "nonzero",
    "masked_select",
    "unique_consecutive",
    "unique_dim",
    "_unique",
    "_unique2",
    "equal",
}


@pytest.fixture
def encoder() -> DensityEncoder:
    torch.manual_seed(0)
    return DensityEncoder(CONFIG).eval()


def one_stage() -> DensityEncoder:
    """Symbolic sizes take long to reason about."""
    return DensityEncoder(replace(CONFIG, rates=(0.25,))).eval()


class Ops(TorchDispatchMode):
    """Records the name of every op that runs."""

    def __init__(self) -> None:
        super().__init__()
        self.names: set[str] = set()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        del types
        self.names.add(func.overloadpacket.__name__)
        return func(*args, **(kwargs or {}))


@pytest.mark.parametrize("lengths", [None, [300, 120]])
def test_no_op_of_a_forward_waits(encoder: DensityEncoder, lengths: list[int] | None) -> None:
    sizes = None if lengths is None else torch.tensor(lengths)
    cloud = torch.randn(2, 300, 3)
    with Ops() as ops:
        encoder(cloud, lengths=sizes)
    assert {"furthest_point_sample", "knn", "nearest_sample"} <= ops.names
    assert not ops.names & WAITING


@pytest.mark.parametrize("padded", [False, True])
def test_a_forward_needs_no_data(encoder: DensityEncoder, padded: bool) -> None:
    """Fake tensors hold none: reading one value of them is an error."""
    with FakeTensorMode(allow_non_fake_inputs=True):
        lengths = torch.empty(2, dtype=torch.int64) if padded else None
        stages = encoder(torch.empty(2, 300, 3), lengths=lengths)
    assert [stage.features.shape for stage in stages] == [(2, 8, 75), (2, 8, 38)]


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_cuda_sees_no_synchronization(encoder: DensityEncoder) -> None:
    model, cloud = encoder.cuda(), torch.randn(2, 4096, 3, device="cuda")
    lengths = torch.tensor([4096, 1000], device="cuda")
    model(cloud, lengths=lengths)
    torch.cuda.set_sync_debug_mode("error")
    try:
        model(cloud, lengths=lengths)
    finally:
        torch.cuda.set_sync_debug_mode("default")


def assert_same(run: Callable[[Tensor], tuple[EncodedStage, ...]], model: DensityEncoder) -> None:
    for batch, points in ((2, 300), (3, 257)):
        cloud = torch.randn(batch, points, 3)
        for ours, theirs in zip(run(cloud), model(cloud), strict=True):
            assert torch.equal(ours.indices, theirs.indices)
            torch.testing.assert_close(ours.features, theirs.features, rtol=0, atol=1e-5)


def test_it_compiles_to_one_graph(encoder: DensityEncoder) -> None:
    torch.compiler.reset()
    assert_same(torch.compile(encoder, backend="aot_eager", fullgraph=True, dynamic=False), encoder)


def test_one_graph_serves_every_size() -> None:
    torch.compiler.reset()
    encoder = one_stage()
    assert_same(torch.compile(encoder, backend="eager", fullgraph=True, dynamic=True), encoder)


def test_a_padded_batch_compiles_too() -> None:
    torch.compiler.reset()
    encoder = one_stage()
    compiled = torch.compile(encoder, backend="eager", fullgraph=True)
    cloud, lengths = torch.randn(2, 300, 3), torch.tensor([300, 100])
    ours, theirs = compiled(cloud, lengths=lengths), encoder(cloud, lengths=lengths)
    torch.testing.assert_close(ours[-1].features, theirs[-1].features, rtol=0, atol=1e-5)


def test_it_exports_for_any_batch_and_size() -> None:
    """And what is exported can be saved, and loaded where only the ops are."""
    encoder = one_stage()
    dynamic = {0: torch.export.Dim.DYNAMIC, 1: torch.export.Dim.DYNAMIC}
    exported = torch.export.export(
        encoder, (torch.randn(2, 300, 3),), dynamic_shapes={"xyz": dynamic}
    )
    file = io.BytesIO()
    torch.export.save(exported, file)
    file.seek(0)
    assert_same(torch.export.load(file).module(), encoder)
