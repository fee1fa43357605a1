"""Drop-in for ``knn_cuda``, which Point-BERT, Point-MAE, PoinTr and SnowflakeNet call.

Change ``from knn_cuda import KNN`` to ``from farpoint_ops.compat.knn_cuda import KNN``.
"""

from torch import Tensor, nn

from farpoint_ops.compat import pytorch3d
from farpoint_ops.compat._checks import checked


class KNN(nn.Module):
    """The k points of `ref` nearest to each of `query`, nearest first, without a gradient."""

    @checked()
    def __init__(self, k: int, transpose_mode: bool = False) -> None:
        super().__init__()
        if k < 1:
            raise ValueError(f"k: expected at least 1, got {k}")
        self.k, self.transpose_mode = k, transpose_mode

    @checked("ref B _ _, query B _ _", p1="query", p2="ref")
    def forward(self, ref: Tensor, query: Tensor) -> tuple[Tensor, Tensor]:
        """(B, D, N), (B, D, M) -> distances, not squared, and rows int64, (B, k, M).

        With `transpose_mode` (B, N, D), (B, M, D) -> (B, M, k).
        """
        points, queries = (
            (t if self.transpose_mode else t.mT).detach().float() for t in (ref, query)
        )
        if self.k > points.size(1):
            raise ValueError(f"ref: expected at least k = {self.k} points, got {points.size(1)}")
        squared, idx, _ = pytorch3d.knn_points(queries, points, K=self.k)
        distances = squared.sqrt()
        return (distances, idx) if self.transpose_mode else (distances.mT, idx.mT)
