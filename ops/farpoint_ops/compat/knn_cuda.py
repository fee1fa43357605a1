"""Drop-in for ``knn_cuda``, which Point-BERT, Point-MAE, PoinTr and SnowflakeNet call.

Change ``from knn_cuda import KNN`` to ``from farpoint_ops.compat.knn_cuda import KNN``.
"""

import torch
from torch import Tensor, nn

from farpoint_ops.compat._clouds import nearest_in


class KNN(nn.Module):
    """The k points of `ref` nearest to each of `query`, nearest first, without a gradient."""

    def __init__(self, k: int, transpose_mode: bool = False) -> None:
        super().__init__()
        self.k, self.transpose_mode = k, transpose_mode

    def forward(self, ref: Tensor, query: Tensor) -> tuple[Tensor, Tensor]:
        """(B, D, N), (B, D, M) -> distances, not squared, and rows int64, (B, k, M).

        With `transpose_mode` (B, N, D), (B, M, D) -> (B, M, k).
        """
        points, queries = (
            (t if self.transpose_mode else t.mT).detach().float() for t in (ref, query)
        )
        if self.k > points.size(1):
            raise ValueError(f"k: expected at most {points.size(1)}, the points, got {self.k}")
        rows = [nearest_in(p, q, self.k) for p, q in zip(points, queries, strict=True)]
        near = torch.stack([p[idx] for p, idx in zip(points, rows, strict=True)])
        distances, idx = (near - queries[:, :, None]).norm(dim=-1), torch.stack(rows)
        return (distances, idx) if self.transpose_mode else (distances.mT, idx.mT)
