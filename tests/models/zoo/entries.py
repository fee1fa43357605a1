"""The zoo: small architectures of the field, written anew with these ops, and their manifests.

Requests to each, and what its module answers to each cloud alone.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from tests.models.zoo import classifiers, scenes
from torch import Tensor, nn
from torch.utils import _pytree as pytree

from farpoint_models.programs import Batching, Manifest, Role, TensorSpec
from farpoint_models.programs.calls import Cloud, run_clouds

Arrays = Mapping[str, np.ndarray[Any, Any]]

XYZ = TensorSpec("xyz", Role.POINTS, "float32", ("B", "N", 3))
FEATURED = TensorSpec("points", Role.POINTS, "float32", ("B", "N", 4))
LOGITS = TensorSpec("logits", Role.PER_CLOUD, "float32", ("B", classifiers.CLASSES))
SCORES = TensorSpec("scores", Role.PER_POINT, "float32", ("B", scenes.CLASSES, "N"))


def value(name: str, *shape: int | str, dtype: str = "float32") -> TensorSpec:
    return TensorSpec(name, Role.PER_CLOUD, dtype, ("B", *shape))


def boxes(count: str = "K") -> TensorSpec:
    return TensorSpec("boxes", Role.PER_SAMPLE, "float32", ("B", count, scenes.BOX))


def classifier() -> Manifest:
    return Manifest(Batching.EQUAL, (XYZ,), (LOGITS,), {"N": (32, 512)})


def part_segmenter() -> Manifest:
    color = TensorSpec("color", Role.PER_POINT, "float32", ("B", 3, "N"))
    category = value("category", dtype="int64")
    return Manifest(Batching.EQUAL, (XYZ, color, category), (SCORES,), {"N": (32, 512)})


def point_transformer() -> Manifest:
    inputs = (
        TensorSpec("xyz", Role.POINTS, "float32", ("P", 3)),
        TensorSpec("color", Role.PER_POINT, "float32", ("P", 3)),
        TensorSpec("ends", Role.OFFSETS, "int32", ("B",)),
    )
    scores = TensorSpec("scores", Role.PER_POINT, "float32", ("P", scenes.CLASSES))
    return Manifest(Batching.RAGGED, inputs, (scores,), {"N": (32, None), "P": (32, None)})


def masked() -> Manifest:
    outputs = (
        TensorSpec("scores", Role.PER_POINT, "float32", ("B", "N")),
        value("features", 32),
        TensorSpec("rows", Role.PER_SAMPLE, "int32", ("B", "M"), counts="kept"),
        TensorSpec("kept", Role.COUNTS, "int64", ("B",)),
    )
    lengths = TensorSpec("lengths", Role.LENGTHS, "int64", ("B",))
    return Manifest(Batching.PADDED, (XYZ, lengths), outputs, {"N": (2, 512)})


def registration() -> Manifest:
    inputs = (TensorSpec("source", Role.POINTS, "float32", ("B", "N", 3)), value("target", "M", 3))
    outputs = (value("rotation", 3, 3), value("translation", 3))
    return Manifest(Batching.EQUAL, inputs, outputs, {"N": (4, 512), "M": (4, 512)})


@dataclass(frozen=True)
class Entry:
    """One architecture.

    Attributes:
        make: The module, with random weights.
        manifest: Of its tensors.
    """

    make: Callable[[], nn.Module]
    manifest: Manifest

    def module(self) -> nn.Module:
        """With the statistics of norms as after training."""
        torch.manual_seed(0)
        module = self.make()
        for each in module.modules():
            if isinstance(each, nn.modules.batchnorm._BatchNorm):
                each.running_mean.normal_(0, 0.1)
                each.running_var.uniform_(0.5, 2)
        return module.eval()


ZOO = {
    "pointnet2": Entry(classifiers.PointNet2, classifier()),
    "pointnext": Entry(classifiers.PointNeXt, classifier()),
    "pointmlp": Entry(classifiers.PointMLP, classifier()),
    "dgcnn": Entry(classifiers.DGCNN, classifier()),
    "pointconv": Entry(classifiers.PointConv, classifier()),
    "part_segmenter": Entry(scenes.PartSegmenter, part_segmenter()),
    "randlanet": Entry(
        scenes.RandLANet, Manifest(Batching.EQUAL, (XYZ,), (SCORES,), {"N": (32, 512)})
    ),
    "point_transformer": Entry(scenes.PointTransformer, point_transformer()),
    "votenet": Entry(
        scenes.VoteNet,
        Manifest(Batching.EQUAL, (FEATURED,), (boxes(), value("features", 24)), {"N": (48, 512)}),
    ),
    "pointpillars": Entry(
        scenes.PointPillars,
        Manifest(
            Batching.EQUAL, (FEATURED,), (value("map", scenes.BOX + 1, 8, 8),), {"N": (1, 512)}
        ),
    ),
    "threedetr": Entry(
        scenes.ThreeDETR,
        Manifest(Batching.EQUAL, (FEATURED,), (boxes(),), {"N": (32, 512)}),
    ),
    "masked_pointnet": Entry(scenes.MaskedPointNet, masked()),
    "registration": Entry(scenes.Registration, registration()),
}


def request(manifest: Manifest, points: int, seed: int, own: int = 20) -> Arrays:
    """A cloud as `Client.infer` takes it, rows first; those of odd seeds are ten times as large."""
    random = np.random.default_rng(seed)
    inputs = {}
    for spec in (manifest.points, *manifest.extra_inputs):
        rows = () if spec.row_axis is None else (points,)
        shape = (*rows, *(own if isinstance(size, str) else size for size in spec.row_shape))
        if spec.dtype == "int64":
            inputs[spec.name] = random.integers(0, 4, shape)
        else:
            inputs[spec.name] = (10 ** (seed % 2) * random.random(shape)).astype(spec.dtype)
    return inputs


def eager(module: nn.Module, manifest: Manifest, inputs: Arrays) -> Arrays:
    """The outputs of the module for one cloud alone, rows first."""

    def call(arrays: Sequence[np.ndarray[Any, Any]]) -> list[np.ndarray[Any, Any]]:
        with torch.no_grad():
            found = pytree.tree_leaves(module(*map(torch.from_numpy, arrays)))
        return [tensor.numpy() for tensor in found if isinstance(tensor, Tensor)]

    rows = {
        s.name: inputs[s.name]
        for s in manifest.inputs
        if s.name in inputs and s.row_axis is not None
    }
    values = {name: array for name, array in inputs.items() if name not in rows}
    cloud = Cloud(len(inputs[manifest.points.name]), rows, values)
    (outputs,) = run_clouds(call, manifest, [cloud])
    return outputs


def check(answer: Any, expected: Arrays) -> None:
    """The answers are those of the module, within 1e-4 of the largest."""
    for name, wanted in expected.items():
        found = answer[name]
        assert found.shape == wanted.shape, name
        finite = np.abs(wanted[np.isfinite(wanted)])
        scale = max(1.0, float(finite.max(initial=0.0)))
        np.testing.assert_allclose(found, wanted, rtol=0, atol=1e-4 * scale, err_msg=name)
