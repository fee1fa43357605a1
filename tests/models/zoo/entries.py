"""The zoo: small architectures of the field, written anew with these ops, and their manifests."""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from tests.models.zoo import classifiers, detectors, others, segmenters
from torch import nn

from farpoint_models.programs import Batching, Manifest, Role, TensorSpec

XYZ = TensorSpec("xyz", Role.POINTS, "float32", ("B", "N", 3))
FEATURED = TensorSpec("points", Role.POINTS, "float32", ("B", "N", 4))
LOGITS = TensorSpec("logits", Role.PER_CLOUD, "float32", ("B", classifiers.CLASSES))
SCORES = TensorSpec("scores", Role.PER_POINT, "float32", ("B", segmenters.CLASSES, "N"))


def value(name: str, *shape: int | str, dtype: str = "float32") -> TensorSpec:
    return TensorSpec(name, Role.PER_CLOUD, dtype, ("B", *shape))


def boxes(count: str = "K") -> TensorSpec:
    return TensorSpec("boxes", Role.PER_SAMPLE, "float32", ("B", count, detectors.BOX))


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
    scores = TensorSpec("scores", Role.PER_POINT, "float32", ("P", segmenters.CLASSES))
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
        changed: What its published code had to change for one caller's answer to be its own.
    """

    make: Callable[[], nn.Module]
    manifest: Manifest
    changed: str = "nothing"

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
    "pointmlp": Entry(
        classifiers.PointMLP, classifier(), "one deviation for each cloud, not for the batch"
    ),
    "dgcnn": Entry(classifiers.DGCNN, classifier()),
    "pointconv": Entry(classifiers.PointConv, classifier()),
    "part_segmenter": Entry(segmenters.PartSegmenter, part_segmenter()),
    "randlanet": Entry(
        segmenters.RandLANet, Manifest(Batching.EQUAL, (XYZ,), (SCORES,), {"N": (32, 512)})
    ),
    "point_transformer": Entry(segmenters.PointTransformer, point_transformer()),
    "votenet": Entry(
        detectors.VoteNet,
        Manifest(Batching.EQUAL, (FEATURED,), (boxes(), value("features", 24)), {"N": (48, 512)}),
    ),
    "pointpillars": Entry(
        detectors.PointPillars,
        Manifest(
            Batching.EQUAL, (FEATURED,), (value("map", detectors.BOX + 1, 8, 8),), {"N": (1, 512)}
        ),
    ),
    "threedetr": Entry(
        detectors.ThreeDETR,
        Manifest(Batching.EQUAL, (FEATURED,), (boxes(),), {"N": (32, 512)}),
    ),
    "masked_pointnet": Entry(others.MaskedPointNet, masked()),
    "registration": Entry(others.Registration, registration()),
    "completion": Entry(
        others.Completion,
        Manifest(
            Batching.EQUAL, (XYZ,), (value("coarse", 16, 3), value("fine", 64, 3)), {"N": (1, 512)}
        ),
    ),
}
