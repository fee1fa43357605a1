"""Drop-in for the point cloud ops of ``pytorch3d.ops``.

Change ``from pytorch3d.ops import …`` to ``from farpoint_ops.compat.pytorch3d import …``. Points
are (N, P, D), of any D; indices are int64. Distances are squared, and have a gradient for both
inputs. Neighbors are always nearest first: `return_sorted` is ignored.
"""

from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import pad

from farpoint_ops._arguments import check_count, to_list
from farpoint_ops.compat import _samples as _samples
from farpoint_ops.compat._checks import OptTensor, check_rows, checked


class _KNN(NamedTuple):
    dists: Tensor
    idx: Tensor
    knn: OptTensor


@checked("points N P D, lengths N int", num_samples="K", xyz="points")
def sample_farthest_points(
    points: Tensor,
    lengths: OptTensor = None,
    K: int | list[int] | Tensor = 50,  # noqa: N803  as it is there
    random_start_point: bool = False,
) -> tuple[Tensor, Tensor]:
    """Samples (N, K, D) and their rows (N, K), K of each cloud or all of a smaller one.

    Places left are 0 and row -1.
    """
    _check_lengths("lengths", lengths, points)
    if isinstance(K, int | torch.SymInt):
        most, counts = K, None
    else:
        wanted = to_list("K", K)
        check_count("K", wanted, points.size(0))
        most, counts = max(wanted, default=0), torch.tensor(wanted, device="cpu")
    if most < 0:
        raise ValueError(f"K: expected at least 0, got {K}")
    idx: Tensor = torch.ops.farpoint._sample_padded(
        points.detach(), lengths, most, counts, random_start_point
    )
    return _gathered(points, idx), idx


@checked("p1 N P1 D, p2 N P2 D, lengths1 N int, lengths2 N int")
def knn_points(
    p1: Tensor,
    p2: Tensor,
    lengths1: OptTensor = None,
    lengths2: OptTensor = None,
    norm: int = 2,
    K: int = 1,  # noqa: N803
    version: int = -1,  # noqa: ARG001
    return_nn: bool = False,
    return_sorted: bool = True,  # noqa: ARG001
) -> _KNN:
    """The K points of `p2` nearest to each of `p1`: distances, rows and points, (N, P1, K, ...).

    0 in places beyond the points of a cloud.
    """
    if norm != 2:
        raise ValueError(f"norm: expected 2, got {norm}")
    idx = _search(p1, p2, lengths1, lengths2, K, None)
    return _found(p1, p2, idx, K, return_nn, 0)


@checked("p1 N P1 D, p2 N P2 D, lengths1 N int, lengths2 N int")
def ball_query(
    p1: Tensor,
    p2: Tensor,
    lengths1: OptTensor = None,
    lengths2: OptTensor = None,
    K: int = 500,  # noqa: N803
    radius: float = 0.2,
    return_nn: bool = True,
    skip_points_outside_cube: bool = False,  # noqa: ARG001  which changes no answer
) -> _KNN:
    """The lowest K rows of `p2` nearer than `radius` to each of `p1`, likewise.

    Places left are row -1, at a distance of 0.
    """
    within = torch.full([], radius, dtype=torch.float64, device="cpu")
    idx = _search(p1, p2, lengths1, lengths2, K, within)
    return _found(p1, p2, idx, K, return_nn, -1)


@checked("x N M U, idx N L K int, lengths N int")
def knn_gather(x: Tensor, idx: Tensor, lengths: OptTensor = None) -> Tensor:
    """(N, M, U), (N, L, K) -> (N, L, K, U); 0 for neighbors beyond `lengths`."""
    check_rows("idx", idx, x.size(1))
    gathered = _gathered(x, idx)
    if lengths is None:
        return gathered
    beyond = torch.arange(idx.size(2), device=x.device) >= lengths[:, None]
    return gathered.masked_fill(beyond[:, None, :, None], 0)


def _search(
    p1: Tensor,
    p2: Tensor,
    lengths1: OptTensor,
    lengths2: OptTensor,
    k: int,
    radius: OptTensor,
) -> Tensor:
    """Rows of `p2` (N, P1, at most k), -1 where there is none."""
    _check_lengths("lengths1", lengths1, p1)
    _check_lengths("lengths2", lengths2, p2)
    if k < 1:
        raise ValueError(f"K: expected at least 1, got {k}")
    n = p2.size(1)
    # Dynamo of torch 2.11 traces sym_min of two numbers to no graph; `min` it makes sym_min.
    k = min(k, n) if torch.compiler.is_dynamo_compiling() else torch.sym_min(k, n)  # type: ignore[no-untyped-call]
    rows: Tensor = torch.ops.farpoint._search(
        p2.detach().flatten(0, 1),
        p1.detach().flatten(0, 1),
        _spans(lengths2, p2),
        _spans(lengths1, p1),
        k,
        radius,
    )
    rows = rows.view(*p1.shape[:2], k)
    first = torch.arange(p2.size(0), device=rows.device)[:, None, None] * n
    return (rows - first).where(rows >= 0, -1)


def _spans(lengths: OptTensor, points: Tensor) -> Tensor:
    """Where the points of each cloud begin and end in all of them (N, 2)."""
    n = points.size(1)
    first = torch.arange(points.size(0), device=points.device) * n
    sizes = n if lengths is None else lengths.to(points.device)
    return torch.stack([first, first + sizes], dim=1)


def _check_lengths(name: str, lengths: OptTensor, points: Tensor) -> None:
    if lengths is None or torch.compiler.is_compiling():
        return
    if bool(((lengths < 0) | (lengths > points.size(1))).any()):
        raise ValueError(
            f"{name}: expected values of 0 to {points.size(1)}, got {lengths.tolist()}"
        )


def _gathered(points: Tensor, idx: Tensor) -> Tensor:
    """(N, P, D), (N, ...) -> (N, ..., D); 0 where the row is -1."""
    if points.size(1) == 0:
        points = pad(points, (0, 0, 0, 1))
    flat = idx.clamp(min=0).flatten(1)[..., None].expand(-1, -1, points.size(2))
    picked = points.gather(1, flat).view(*idx.shape, points.size(2))
    return picked.masked_fill((idx < 0)[..., None], 0)


def _found(p1: Tensor, p2: Tensor, idx: Tensor, k: int, return_nn: bool, missing: int) -> _KNN:
    near = _gathered(p2, idx)
    distances = (near - p1[:, :, None]).square().sum(-1).masked_fill(idx < 0, 0)
    rest = k - idx.size(2)  # places that no cloud has points for
    return _KNN(
        pad(distances, (0, rest)),
        pad(idx.masked_fill(idx < 0, missing), (0, rest), value=missing),
        pad(near, (0, 0, 0, rest)) if return_nn else None,
    )
