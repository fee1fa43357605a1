"""Ball queries with an inner and an outer radius, in a flat batch with offsets; in plain torch.

Every pair of a point and a query of a cloud is looked at, some millions at a time.
"""

import math
from collections.abc import Callable

import torch
from torch import Tensor

from farpoint_ops.compat.pointops._search import MISSING_DISTANCE, Found, search_each_cloud

# A squared distance up to which a point counts whatever the inner radius is.
_COINCIDENT = 1e-5
# Pairs looked at together.
_PAIRS = 1 << 22

# Squared distances of all pairs, and which are in the shell, both (m, n) -> the order in which to
# take the points of each query and the places of that order to take, (m, n) and (m, nsample).
Choice = Callable[[Tensor, Tensor], tuple[Tensor, Tensor]]


def ball_query(
    nsample: int,
    max_radius: float,
    min_radius: float,
    xyz: Tensor,
    offset: Tensor,
    new_xyz: Tensor | None = None,
    new_offset: Tensor | None = None,
) -> Found:
    """(n, 3), (B,), (m, 3), (B,) -> rows and distances of points in the shell, (m, nsample).

    A point is in it at a distance of at least `min_radius` and less than `max_radius`, or where it
    coincides with the query. Nearest first; where there are more than nsample, every so many of
    them, evenly; where there are fewer, -1 fills the places left.
    """
    places = torch.arange(nsample, device=xyz.device)

    def choose(squared: Tensor, within: Tensor) -> tuple[Tensor, Tensor]:
        order = squared.masked_fill(~within, math.inf).argsort(dim=1, stable=True)
        count = within.sum(1, keepdim=True)
        return order, torch.where(count > nsample, places * count // nsample, places)

    search = _shell(choose, min_radius, max_radius)
    return search_each_cloud(search, nsample, xyz, offset, new_xyz, new_offset)


def random_ball_query(
    nsample: int,
    max_radius: float,
    min_radius: float,
    xyz: Tensor,
    offset: Tensor,
    new_xyz: Tensor | None = None,
    new_offset: Tensor | None = None,
) -> Found:
    """As `ball_query`, with points of the shell in a random order."""
    places = torch.arange(nsample, device=xyz.device)

    def choose(squared: Tensor, within: Tensor) -> tuple[Tensor, Tensor]:
        order = torch.rand_like(squared).masked_fill(~within, math.inf).argsort(dim=1)
        return order, places.expand(len(squared), nsample)

    search = _shell(choose, min_radius, max_radius)
    return search_each_cloud(search, nsample, xyz, offset, new_xyz, new_offset)


def _shell(choose: Choice, low: float, high: float) -> Callable[[Tensor, Tensor], Found]:
    if low >= high:
        raise ValueError(f"min_radius: expected less than max_radius = {high}, got {low}")

    def search_part(cloud: Tensor, queries: Tensor) -> Found:
        squared = (queries[:, None] - cloud).square().sum(-1)
        within = (squared <= _COINCIDENT) | ((squared >= low * low) & (squared < high * high))
        order, places = choose(squared, within)
        idx = order.gather(1, places.clamp(max=len(cloud) - 1))
        missing = places >= within.sum(1, keepdim=True)
        distance = squared.gather(1, idx).sqrt().masked_fill(missing, MISSING_DISTANCE)
        return idx.masked_fill(missing, -1), distance

    def search(cloud: Tensor, queries: Tensor) -> Found:
        parts = torch.split(queries, max(1, _PAIRS // len(cloud)))
        idx, distance = zip(*(search_part(cloud.float(), p.float()) for p in parts), strict=True)
        return torch.cat(idx), torch.cat(distance)

    return search
