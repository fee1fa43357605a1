"""Contrastive loss: samples of two views at one place have like features, others have not.

Van den Oord, Li and Vinyals, "Representation Learning with Contrastive Predictive Coding", 2018.
"""

import torch
from torch import Tensor
from torch.nn import functional

from farpoint_ops import knn

TEMPERATURE = 0.1
# In spacings of the samples: the farthest apart that two are one place, and the nearest that they
# are two.
SAME, APART = 0.8, 2.0


def contrast(one: Tensor, other: Tensor, places: Tensor, other_places: Tensor) -> Tensor:
    """Mean loss of the samples of one view that have a like in the other.

    Args:
        one: Features of samples of one view, (B, C, M), of which products are compared.
        other: Of the other view, (B, C, M').
        places: Where the samples of one view are in the cloud, (B, M, 3).
        other_places: Those of the other, (B, M', 3).
    """
    with torch.no_grad():
        gaps = torch.cdist(places, other_places)
        unit = knn(other_places, other_places, 2)[1][..., 1].sqrt().mean(1)[:, None]
        nearest, like = gaps.min(2)
        found = (nearest < SAME * unit).flatten()
        columns = torch.arange(gaps.size(2))
        close = (gaps < APART * unit.unsqueeze(2)) & (columns != like.unsqueeze(2))
        ignored = torch.block_diag(*close).bool()  # type: ignore[no-untyped-call]
        target = (like + gaps.size(2) * torch.arange(len(like))[:, None]).flatten()
    alike = one.movedim(1, 2).flatten(0, 1) @ other.movedim(1, 2).flatten(0, 1).T
    alike = (alike / TEMPERATURE).masked_fill(ignored, -torch.inf)
    return functional.cross_entropy(alike[found], target[found])


# A match is right within so many spacings of the samples.
RIGHT = 1.5


@torch.no_grad()
def matched(one: Tensor, other: Tensor, places: Tensor, other_places: Tensor) -> float:
    """The share of right matches by nearest features, as in `contrast`, for one pair of views.

    Only the samples of one view count that have one of the other within a spacing.
    """
    gaps = torch.cdist(places, other_places)
    unit = knn(other_places, other_places, 2)[1][..., 1].sqrt().median()
    nearest = torch.cdist(one.mT, other.mT).argmin(2, keepdim=True)
    right = gaps.gather(2, nearest)[..., 0] < RIGHT * unit
    return float(right[gaps.amin(2) < unit].float().mean())
