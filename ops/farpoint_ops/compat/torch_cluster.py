"""Drop-in for ``torch_cluster``'s fps, knn, radius, nearest and grid_cluster, and their graphs.

Change ``import torch_cluster`` to ``from farpoint_ops.compat import torch_cluster``. PyTorch
Geometric takes it too, where this comes before its first import::

    import sys
    from farpoint_ops.compat import torch_cluster
    sys.modules["torch_cluster"] = torch_cluster

Points are (n, D) of any dimension, integers too, which are computed in float64; `batch` is the
cloud of each, ascending. Indices are int64 and carry no gradient. A point at exactly the radius is
outside, and of more than `max_num_neighbors` the lowest rows are taken; neighbors of `knn` are
nearest first. Compiled, exported and scripted code may call all of it.
"""

import torch
from torch import Tensor
from torch.nn.functional import pad

from farpoint_ops.compat import _samples as _samples
from farpoint_ops.compat import _torch_geometric
from farpoint_ops.compat._checks import OptTensor, checked

# The release whose interface this is.
__version__ = "1.6.3"


@checked(num_samples="ratio", xyz="src")
def fps(
    src: Tensor,
    batch: OptTensor = None,
    ratio: float | OptTensor = None,
    random_start: bool = True,
    batch_size: int | None = None,  # noqa: ARG001  the clouds are those of `batch`
    ptr: Tensor | list[int] | None = None,
) -> Tensor:
    """Rows of the samples of each cloud: the share `ratio` of its points, rounded up; 0.5.

    With a `ratio` above 1 all points, each once.
    """
    if ratio is None:
        ratio = 0.5
    if not isinstance(ratio, Tensor):
        ratio = torch.full((), ratio, dtype=torch.float32, device="cpu")
    if isinstance(ptr, list):
        ptr = torch.tensor(ptr, dtype=torch.int64, device="cpu")
    rows: Tensor = torch.ops.farpoint._fps_by_ratio(
        src.detach(), batch, ratio.detach(), random_start, ptr
    )
    return rows


@checked()
def knn(
    x: Tensor,
    y: Tensor,
    k: int,
    batch_x: OptTensor = None,
    batch_y: OptTensor = None,
    cosine: bool = False,
    num_workers: int = 1,  # noqa: ARG001  threads are torch's
    batch_size: int | None = None,  # noqa: ARG001
) -> Tensor:
    """For each of `y` its k nearest of `x` in its cloud: rows of `y` and of `x`, (2, E)."""
    _check_metric(cosine)
    return _edges(x, y, k, batch_x, batch_y, None, False)


@checked(k="max_num_neighbors", radius="r")
def radius(
    x: Tensor,
    y: Tensor,
    r: float,
    batch_x: OptTensor = None,
    batch_y: OptTensor = None,
    max_num_neighbors: int = 32,
    num_workers: int = 1,  # noqa: ARG001
    batch_size: int | None = None,  # noqa: ARG001
    ignore_same_index: bool = False,
) -> Tensor:
    """For each of `y` the points of `x` nearer than r: rows of `y` and of `x`, (2, E)."""
    return _edges(x, y, max_num_neighbors, batch_x, batch_y, r, ignore_same_index)


@checked(batch_x="batch", batch_y="batch")
def knn_graph(
    x: Tensor,
    k: int,
    batch: OptTensor = None,
    loop: bool = False,
    flow: str = "source_to_target",
    cosine: bool = False,
    num_workers: int = 1,  # noqa: ARG001
    batch_size: int | None = None,  # noqa: ARG001
) -> Tensor:
    """Edges (2, E) from each point's k nearest neighbors to it; `flow` may turn them round."""
    _check_metric(cosine)
    return _directed(_edges(x, x, k, batch, batch, None, not loop), flow)


@checked(k="max_num_neighbors", radius="r", batch_x="batch", batch_y="batch")
def radius_graph(
    x: Tensor,
    r: float,
    batch: OptTensor = None,
    loop: bool = False,
    max_num_neighbors: int = 32,
    flow: str = "source_to_target",
    num_workers: int = 1,  # noqa: ARG001
    batch_size: int | None = None,  # noqa: ARG001
) -> Tensor:
    """Edges (2, E) from the points nearer than r of each point to it, likewise."""
    return _directed(_edges(x, x, max_num_neighbors, batch, batch, r, not loop), flow)


@checked()
def nearest(x: Tensor, y: Tensor, batch_x: OptTensor = None, batch_y: OptTensor = None) -> Tensor:
    """For each of `x` the row of the nearest of `y` in its cloud, (n,)."""
    rows: Tensor = torch.ops.farpoint._nearest(_columns(x), _columns(y), batch_x, batch_y)
    return rows


@checked("pos N D, size D, start D, end D")
def grid_cluster(
    pos: Tensor, size: Tensor, start: OptTensor = None, end: OptTensor = None
) -> Tensor:
    """The number of the voxel of each point (n,): voxels of `size` (D,) from `start` to `end`."""
    pos = _columns(pos)
    if pos.size(0) == 0:
        return torch.empty(0, dtype=torch.int64, device=pos.device)
    low = pos.min(0).values if start is None else start
    high = pos.max(0).values if end is None else end
    voxels = ((high - low) / size).long() + 1
    strides = pad(voxels.cumprod(0)[:-1], [1, 0], value=1.0)
    return (((pos - low) / size).long() * strides).sum(1)


def _columns(points: Tensor) -> Tensor:
    points = points.detach()
    points = points[:, None] if points.dim() == 1 else points.flatten(1)
    return points if points.is_floating_point() else points.double()


def _edges(
    x: Tensor,
    y: Tensor,
    k: int,
    batch_x: OptTensor,
    batch_y: OptTensor,
    r: float | None,
    others: bool,
) -> Tensor:
    # A tensor: a graph would keep the number.
    within = None if r is None else torch.full([], r, dtype=torch.float64, device="cpu")
    edges: Tensor = torch.ops.farpoint._edges(
        _columns(x), _columns(y), k, batch_x, batch_y, within, others
    )
    return edges


def _check_metric(cosine: bool) -> None:
    if cosine:
        raise ValueError("cosine: expected False, got True; normalize the points instead")


def _directed(edges: Tensor, flow: str) -> Tensor:
    if flow not in ("source_to_target", "target_to_source"):
        raise ValueError(f"flow: expected source_to_target or target_to_source, got {flow}")
    return edges.flip(0) if flow == "source_to_target" else edges


def __getattr__(name: str) -> object:
    """PyTorch Geometric imports names of the original that no point cloud needs."""
    return _torch_geometric.missing(__name__, name)


_torch_geometric.serve(__name__)
