"""Density-aware encoder of point clouds."""

from dataclasses import dataclass, replace
from itertools import zip_longest

import torch
from torch import Tensor, nn

from farpoint_models.config import EncoderConfig
from farpoint_models.layers import DensityStage
from farpoint_models.level import Level, Neighborhood, collapse, sample_count
from farpoint_models.surface import Patch, SurfaceStage, surroundings
from farpoint_ops import furthest_point_sample, gather_points, group_points


@dataclass(frozen=True)
class EncodedStage:
    """The samples of B clouds after a stage, in order of choice.

    Attributes:
        indices: Rows of the original cloud, int32 (B, M); -1 in padding.
        points: Their coordinates as they came in, (B, M, 3).
        features: (B, C, M).
        counts: How many points of the original cloud each stands for, int32 (B, M). They sum to
            the points of the cloud.
        mean_distance: From each sample to the points of the stage before that collapse into it,
            float32 (B, M), in the unit of the coordinates. Has no gradient.
        lengths: Samples of each cloud, int64 (B,); the columns behind are padding, zero. None when
            the clouds came without lengths: all columns are samples then.
    """

    indices: Tensor
    points: Tensor
    features: Tensor
    counts: Tensor
    mean_distance: Tensor
    lengths: Tensor | None


torch.export.register_dataclass(
    EncodedStage, serialized_type_name="farpoint_models.encoder.EncodedStage"
)


class DensityEncoder(nn.Module):
    """A stack of downsampling stages with features that preserve the local density.

    He, Ren, Tang, Zhang, Xue and Fu, "Density-preserving Deep Point Cloud Compression", CVPR 2022.
    Only differences of coordinates enter, so that moving a cloud changes nothing.

    Args:
        config: The shape of the model.
    """

    def __init__(self, config: EncoderConfig | None = None):
        super().__init__()
        self.config = config or EncoderConfig()
        # A constant 1 before the attributes is the input of clouds without attributes.
        oriented = self.config.oriented
        self.lift = nn.Conv1d(1 + self.config.attributes, oriented.channels, 1, bias=False)
        self.stages = nn.ModuleList(DensityStage(oriented) for _ in self.config.rates)
        self.surfaces = nn.ModuleList(
            SurfaceStage(self.config, first=stage == 0)
            for stage in range(len(self.config.rates) if self.config.invariant else 0)
        )

    def forward(
        self,
        xyz: Tensor,
        attributes: Tensor | None = None,
        *,
        lengths: Tensor | None = None,
        start: Tensor | None = None,
    ) -> tuple[EncodedStage, ...]:
        """Encodes a batch of clouds.

        Args:
            xyz: Finite coordinates (B, N, 3). float32, float16 and bfloat16 are taken as they are;
                float64 is shifted to the first point of its cloud, in float64, before it is
                narrowed, so map coordinates lose nothing.
            attributes: (B, A, N), as many channels as the config says; None when that is 0.
            lengths: Points of each cloud, int32 or int64 (B,), 1..N, on the device of `xyz`; rows
                behind them are padding and do not change the rest. All of the N rows when None.
            start: Row of each cloud's first sample, int32 or int64 (B,); row 0 when None.

        Returns:
            One `EncodedStage` for each rate. Gradients reach `attributes` and `xyz` through the
            features and `xyz` through the points, never through the choice of points.

        Raises:
            TypeError: A dtype is not one of those above.
            ValueError: A shape does not fit; the message names the argument.
        """
        level = Level.of(xyz, lengths)
        columns = self._columns(xyz, attributes)
        features, surface = self.lift(columns), columns
        patch: Patch | None = None
        level = replace(level, local=level.local.to(_at_least_float32(features)))
        # The first m picks of a cloud are also the picks among its first M > m. So one run of
        # farthest point sampling serves every stage.
        most = sample_count(level.size, self.config.rates[0])
        chosen = furthest_point_sample(level.search, most, start=0 if start is None else start)
        picks = chosen
        encoded = []
        for rate, stage, describe in zip_longest(self.config.rates, self.stages, self.surfaces):
            picks = picks[:, : sample_count(level.size, rate)]
            samples = level.pick(picks, rate)
            hood = self._collapse(level, samples)
            offsets = group_points(level.local, hood.rows) - samples.local.unsqueeze(-1)
            found = []
            if describe is not None:
                before, patch = patch, Patch.of(offsets, hood.real)
                surface = describe(surface, picks, surroundings(offsets, patch, before, hood), hood)
                offsets = offsets / patch.typical(hood.real).unsqueeze(-1)
                found = [surface]
            features = stage(features, offsets, picks, hood)
            level = replace(samples, counts=hood.counts)
            encoded.append(_stage(xyz, chosen, torch.cat([*found, features], 1), hood, level))
            picks = _first_rows(level)
        return tuple(encoded)

    def _columns(self, xyz: Tensor, attributes: Tensor | None) -> Tensor:
        """1 and the attributes (B, 1 + A, N)."""
        expected = (xyz.size(0), self.config.attributes, xyz.size(1))
        if attributes is None and self.config.attributes == 0:
            attributes = xyz.new_empty(expected)
        if attributes is None or attributes.shape != expected:
            got = None if attributes is None else tuple(attributes.shape)
            raise ValueError(f"attributes: expected shape {expected}, got {got}")
        attributes = attributes.to(self.lift.weight.dtype)
        ones = attributes.new_ones(expected[0], 1, expected[2])
        return torch.cat([ones, attributes], 1)

    def _collapse(self, level: Level, samples: Level) -> Neighborhood:
        k = min(self.config.neighbors, level.size)
        padded = level.lengths is not None
        return collapse(level.search, samples.search, level.counts, k, padded=padded)


def _at_least_float32(features: Tensor) -> torch.dtype:
    return torch.float64 if features.dtype == torch.float64 else torch.float32


def _first_rows(level: Level) -> Tensor:
    """0, 1, 2, … for each cloud: int32 (B, N)."""
    rows = torch.arange(level.size, dtype=torch.int32, device=level.search.device)
    return rows.expand(level.search.size(0), -1)


def _stage(
    xyz: Tensor, chosen: Tensor, features: Tensor, hood: Neighborhood, level: Level
) -> EncodedStage:
    indices = chosen[:, : level.size]
    points = gather_points(xyz.mT, indices).mT
    real = level.real()
    if real is not None:
        indices = torch.where(real, indices, -1)
        points = torch.where(real.unsqueeze(2), points, 0)
    return EncodedStage(indices, points, features, hood.counts, hood.mean_distance, level.lengths)
