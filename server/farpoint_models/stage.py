"""One density-aware down-sampling stage."""

import torch
from torch import Tensor, nn

from farpoint_models.config import EncoderConfig
from farpoint_models.layers import NeighborhoodAttention, PointwiseMLP, PositionEmbedding
from farpoint_models.neighborhood import Neighborhood
from farpoint_ops import gather_points, group_points


class DensityStage(nn.Module):
    """Features of samples from those of the points that collapse into them.

    He, Ren, Tang, Zhang, Xue and Fu, "Density-preserving Deep Point Cloud Compression", CVPR 2022,
    section 3.2: ancestor, local position and density embeddings, joined and added to a residual.
    """

    def __init__(self, config: EncoderConfig):
        super().__init__()
        channels, hidden, groups = config.channels, config.hidden, config.groups
        self.mix = nn.Conv1d(channels, channels, 1)
        self.ancestor = NeighborhoodAttention(channels, hidden, groups)
        self.position = PositionEmbedding(channels, hidden, groups)
        self.density = PointwiseMLP(1, hidden, channels, groups, dimensions=1)
        self.join = nn.Conv1d(3 * channels, channels, 1)

    def forward(
        self, features: Tensor, points: Tensor, picks: Tensor, hood: Neighborhood
    ) -> Tensor:
        """Features of the samples.

        Args:
            features: (B, C, N).
            points: Coordinates (B, 3, N), finite even in padding.
            picks: Points that are the samples, int32 (B, M).
            hood: Their neighborhood.

        Returns:
            (B, C, M), zero in padding.
        """
        mixed = self.mix(features)
        keys = group_points(self.ancestor.key(mixed), hood.rows)
        values = group_points(self.ancestor.value(mixed), hood.rows)
        offsets = group_points(points, hood.rows) - gather_points(points, picks).unsqueeze(-1)
        sampled = gather_points(mixed, picks)
        embeddings = [
            self.ancestor(sampled, keys, values, offsets, hood.members, hood.real),
            self.position(offsets, hood.members, hood.real),
            self.density(hood.collapsed.unsqueeze(1).to(points.dtype), self._real_samples(hood)),
        ]
        joined: Tensor = self.join(torch.cat(embeddings, 1))
        out = joined + gather_points(features, picks)
        real = self._real_samples(hood)
        return out if real is None else torch.where(real, out, 0)

    @staticmethod
    def _real_samples(hood: Neighborhood) -> Tensor | None:
        """(B, 1, M). The nearest neighbor of a real sample is real."""
        return None if hood.real is None else hood.real[..., 0]
