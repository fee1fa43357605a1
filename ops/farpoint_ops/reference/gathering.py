"""gather_points, group_points, interpolate and their transposes, in plain torch."""

from torch import Tensor


def gather_points(features: Tensor, idx: Tensor) -> Tensor:
    """(B, C, N), (B, M) -> (B, C, M)."""
    index = idx.long().unsqueeze(1).expand(-1, features.size(1), -1)
    return features.gather(2, index)


def scatter_points(values: Tensor, idx: Tensor, n: int) -> Tensor:
    """(B, C, M), (B, M) -> (B, C, n), repeated indices summed."""
    index = idx.long().unsqueeze(1).expand_as(values)
    return values.new_zeros(*values.shape[:2], n).scatter_add(2, index, values)


def group_points(features: Tensor, idx: Tensor) -> Tensor:
    """(B, C, N), (B, M, K) -> (B, C, M, K)."""
    gathered = gather_points(features, idx.flatten(1))
    return gathered.view(*features.shape[:2], *idx.shape[1:])


def interpolate(features: Tensor, idx: Tensor, weight: Tensor) -> Tensor:
    """(B, C, M), (B, N, K), (B, N, K) -> (B, C, N)."""
    return (group_points(features, idx) * weight.unsqueeze(1)).sum(-1)


def interpolate_scatter(values: Tensor, idx: Tensor, weight: Tensor, m: int) -> Tensor:
    """(B, C, N), (B, N, K), (B, N, K) -> (B, C, m)."""
    products = values.unsqueeze(-1) * weight.unsqueeze(1)
    return scatter_points(products.flatten(2), idx.flatten(1), m)


def interpolate_dot(values: Tensor, features: Tensor, idx: Tensor) -> Tensor:
    """(B, C, N), (B, C, M), (B, N, K) -> (B, N, K)."""
    return (values.unsqueeze(-1) * group_points(features, idx)).sum(1)
