"""Small programs of each way to be joined, made of modules with random weights."""

import torch
from torch import Tensor, nn

from farpoint_models.programs import Batching, Manifest, Role, TensorSpec
from farpoint_ops import farthest_point_sample, gather_points

XYZ = TensorSpec("xyz", Role.POINTS, "float32", ("B", "N", 3))
SAMPLES = 8


class Segmenter(nn.Module):
    """Scores of each point from its coordinates, color and label; and some samples."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(7)
        self.point = nn.Linear(3, 5)
        self.color = nn.Conv1d(2, 5, 1)
        self.label = nn.Embedding(4, 5)

    def forward(self, xyz: Tensor, color: Tensor, label: Tensor) -> dict[str, Tensor]:
        rows = farthest_point_sample(xyz, SAMPLES)
        scores = self.point(xyz).mT + self.color(color) + self.label(label)[:, :, None]
        return {
            "scores": scores,
            "samples": gather_points(xyz.mT, rows).mT,
            "logits": scores.amax(2),
        }


def segmenter_manifest(batching: Batching = Batching.EQUAL) -> Manifest:
    return Manifest(
        batching,
        (
            XYZ,
            TensorSpec("color", Role.PER_POINT, "float32", ("B", 2, "N")),
            TensorSpec("label", Role.PER_CLOUD, "int64", ("B",)),
        ),
        (
            TensorSpec("scores", Role.PER_POINT, "float32", ("B", 5, "N")),
            TensorSpec("samples", Role.PER_SAMPLE, "float32", ("B", "M", 3)),
            TensorSpec("logits", Role.PER_CLOUD, "float32", ("B", 5)),
        ),
        {"N": (SAMPLES, 20_000)},
    )


class RaggedPool(nn.Module):
    """PointNet on clouds that lie end to end: features of points, and their maximum in each cloud.

    Qi, Su, Mo and Guibas, "PointNet", CVPR 2017, without its transformers.
    """

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(8)
        self.lift = nn.Sequential(nn.Linear(3, 8), nn.ReLU(), nn.Linear(8, 6))

    def forward(self, xyz: Tensor, ends: Tensor) -> tuple[Tensor, Tensor]:
        features = self.lift(xyz)
        places = torch.arange(xyz.size(0), device=xyz.device)
        owner = torch.bucketize(places, ends, right=True)[:, None].expand(-1, 6)
        start = features.new_full((ends.size(0), 6), -torch.inf)
        return features, start.scatter_reduce(0, owner, features, "amax")


RAGGED = Manifest(
    Batching.RAGGED,
    (
        TensorSpec("xyz", Role.POINTS, "float32", ("P", 3)),
        TensorSpec("ends", Role.OFFSETS, "int64", ("B",)),
    ),
    (
        TensorSpec("features", Role.PER_POINT, "float32", ("P", 6)),
        TensorSpec("pooled", Role.PER_CLOUD, "float32", ("B", 6)),
    ),
    shift_float64=True,
)


class Halves(nn.Module):
    """The first half of the farthest points of each padded cloud, and how many these are."""

    def forward(self, xyz: Tensor, lengths: Tensor) -> tuple[Tensor, Tensor]:
        most = (xyz.size(1) + 1) // 2
        real = torch.arange(xyz.size(1), device=xyz.device) < lengths[:, None]
        # What is no number is not chosen before all others are.
        rows = farthest_point_sample(xyz.where(real[:, :, None], torch.nan), most)
        return rows, (lengths + 1) // 2


PADDED = Manifest(
    Batching.PADDED,
    (XYZ, TensorSpec("lengths", Role.LENGTHS, "int64", ("B",))),
    (
        TensorSpec("rows", Role.PER_SAMPLE, "int32", ("B", "M"), counts="counts"),
        TensorSpec("counts", Role.COUNTS, "int64", ("B",)),
    ),
)
