"""Gradients of the encoder; its forward waits for no device, compiles to one graph, exports."""

import io
from collections.abc import Callable
from dataclasses import replace

import pytest
import torch
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensorMode

from farpoint_models import DensityEncoder, EncodedStage, EncoderConfig

CONFIG = EncoderConfig(rates=(0.5, 0.5), channels=4, hidden=4, neighbors=5, groups=2, attributes=2)
SURFACE = replace(CONFIG, channels=9, invariant=3, upright=2)


@pytest.fixture(params=[CONFIG, SURFACE], ids=["oriented", "surface"])
def encoder(request: pytest.FixtureRequest) -> DensityEncoder:
    torch.manual_seed(0)
    return DensityEncoder(request.param)


def inputs(points: int, dtype: torch.dtype = torch.float32) -> tuple[Tensor, Tensor]:
    made = torch.Generator().manual_seed(5)
    xyz = torch.randn(2, points, 3, generator=made).to(dtype)
    attributes = torch.randn(2, 2, points, generator=made).to(dtype)
    return xyz.requires_grad_(), attributes.requires_grad_()


@pytest.mark.parametrize("lengths", [None, [10, 6]])
def test_gradients_are_those_of_finite_differences(
    encoder: DensityEncoder, lengths: list[int] | None
) -> None:
    """In float64, with steps too small to change which points are chosen."""
    xyz, attributes = inputs(10, torch.float64)
    sizes = None if lengths is None else torch.tensor(lengths)
    model = encoder.double()

    def features(*tensors: Tensor) -> tuple[Tensor, ...]:
        return tuple(stage.features for stage in model(*tensors, lengths=sizes))

    torch.autograd.gradcheck(features, (xyz, attributes), eps=1e-6, atol=1e-5, fast_mode=True)


def test_every_weight_and_input_gets_a_gradient(encoder: DensityEncoder) -> None:
    xyz, attributes = inputs(60)
    encoder(xyz, attributes)[-1].features.square().sum().backward()
    tensors = {**dict(encoder.named_parameters()), "xyz": xyz, "attributes": attributes}
    for name, tensor in tensors.items():
        assert tensor.grad is not None, name
        assert tensor.grad.isfinite().all(), name
        # Biases in front of a softmax or a norm cancel; those of the last projections do not.
        assert tensor.grad.any(), name


def test_what_was_chosen_has_no_gradient(encoder: DensityEncoder) -> None:
    xyz, attributes = inputs(60)
    for stage in encoder(xyz, attributes):
        assert stage.features.requires_grad
        assert stage.points.requires_grad
        for choice in (stage.indices, stage.counts, stage.mean_distance):
            assert not choice.requires_grad


def test_coincident_points_do_not_blow_a_gradient_up(encoder: DensityEncoder) -> None:
    """The direction to a point at distance zero has no derivative; 1e12 would be the usual one."""
    xyz, attributes = inputs(30)
    doubled = torch.cat([xyz, xyz], 1)
    encoder(doubled, torch.cat([attributes, attributes], 2))[-1].features.sum().backward()
    assert xyz.grad is not None
    assert xyz.grad.abs().max() < 1e3


TRACED = EncoderConfig(
    rates=(0.25, 0.5), channels=8, hidden=8, neighbors=8, groups=2, invariant=3, upright=2
)


@pytest.fixture
def traced() -> DensityEncoder:
    torch.manual_seed(0)
    return DensityEncoder(TRACED).eval()


def one_stage() -> DensityEncoder:
    """Symbolic sizes take long to reason about."""
    return DensityEncoder(replace(TRACED, rates=(0.25,))).eval()


@pytest.mark.parametrize("padded", [False, True])
def test_a_forward_needs_no_data(traced: DensityEncoder, padded: bool) -> None:
    """Fake tensors hold none: reading one value of them is an error."""
    with FakeTensorMode(allow_non_fake_inputs=True):
        lengths = torch.empty(2, dtype=torch.int64) if padded else None
        stages = traced(torch.empty(2, 300, 3), lengths=lengths)
    assert [stage.features.shape for stage in stages] == [(2, 8, 75), (2, 8, 38)]


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_cuda_sees_no_synchronization(traced: DensityEncoder) -> None:
    model, cloud = traced.cuda(), torch.randn(2, 4096, 3, device="cuda")
    lengths = torch.tensor([4096, 1000], device="cuda")
    model(cloud, lengths=lengths)
    torch.cuda.set_sync_debug_mode("error")
    try:
        model(cloud, lengths=lengths)
    finally:
        torch.cuda.set_sync_debug_mode("default")


def assert_same(
    run: Callable[..., tuple[EncodedStage, ...]],
    model: DensityEncoder,
    lengths: Tensor | None = None,
) -> None:
    options = {} if lengths is None else {"lengths": lengths}
    for batch, points in ((2, 300), (3, 257))[: 2 if lengths is None else 1]:
        cloud = torch.randn(batch, points, 3)
        for ours, theirs in zip(run(cloud, **options), model(cloud, **options), strict=True):
            assert torch.equal(ours.indices, theirs.indices)
            torch.testing.assert_close(ours.features, theirs.features, rtol=0, atol=1e-5)


@pytest.mark.parametrize(
    ("backend", "dynamic", "lengths"),
    [
        ("aot_eager", False, torch.tensor([300, 100])),
        pytest.param("eager", True, None, marks=pytest.mark.slow),
    ],
)
def test_it_compiles_to_one_graph(backend: str, dynamic: bool, lengths: Tensor | None) -> None:
    torch.compiler.reset()
    encoder = one_stage()
    compiled = torch.compile(encoder, backend=backend, fullgraph=True, dynamic=dynamic)
    assert_same(compiled, encoder, lengths)


@pytest.mark.slow
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
