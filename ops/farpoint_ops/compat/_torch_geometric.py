"""PyTorch Geometric with the drop-in as ``sys.modules["torch_cluster"]``, releases 2.3 to 2.8.

Up to 2.7 it imports torch_cluster, and names of it that are for graphs alone; 2.3 looks for an op
of it besides. From 2.8 it calls ``torch.ops.pyg`` of pyg-lib, and for what that has not asks flags.
"""

import sys
from collections.abc import Sequence
from importlib.abc import MetaPathFinder
from typing import Any

import torch
from torch import Tensor

_GRAPHS_ONLY = ("graclus_cluster", "random_walk", "neighbor_sampler")


def missing(module: str, name: str) -> object:
    """A function of torch_cluster about graphs alone, which raises; else AttributeError."""
    if name not in _GRAPHS_ONLY:
        raise AttributeError(f"module {module!r} has no attribute {name!r}")

    def graphs_only(*_: object, **__: object) -> None:
        raise NotImplementedError(f"{name}: needs torch-cluster or pyg-lib; {module} lacks it")

    return graphs_only


def serve(module: str) -> None:
    """Has PyTorch Geometric use the drop-in `module` where it stands in for torch_cluster."""
    sys.meta_path.insert(0, _Watch(module))


class _Watch(MetaPathFinder):
    """Finds nothing; sees parts of PyTorch Geometric that are about to be imported."""

    def __init__(self, module: str) -> None:
        self.module = module

    def find_spec(self, fullname: str, path: Sequence[str] | None, target: Any = None) -> None:  # noqa: ARG002
        drop_in = sys.modules.get("torch_cluster")
        if fullname.startswith("torch_geometric.") and drop_in is sys.modules[self.module]:
            if not hasattr(torch.ops.torch_cluster, "random_walk"):  # by 2.3
                walk = missing(self.module, "random_walk")
                vars(torch.ops.torch_cluster)["random_walk"] = walk
            typing = sys.modules.get("torch_geometric.typing")
            if getattr(typing, "WITH_KNN", None) is False:  # from 2.8, without pyg-lib
                _replace_pyg_lib(typing, drop_in)


def _replace_pyg_lib(typing: Any, drop_in: Any) -> None:
    def fps(src: Tensor, ptr: Tensor, ratio: float = 0.5, random_start: bool = True) -> Tensor:
        rows: Tensor = drop_in.fps(src, None, ratio, random_start, None, ptr)
        return rows

    def knn(x: Tensor, y: Tensor, ptr_x: Any, ptr_y: Any, *options: Any) -> Tensor:
        k, *cosine = options
        edges: Tensor = drop_in.knn(x, y, k, _batch(ptr_x), _batch(ptr_y), *cosine)
        return edges

    def radius(x: Tensor, y: Tensor, ptr_x: Any, ptr_y: Any, r: float, *options: Any) -> Tensor:
        most, threads, others = options
        batches = _batch(ptr_x), _batch(ptr_y)
        edges: Tensor = drop_in.radius(x, y, r, *batches, most, threads, None, others)
        return edges

    def nearest(x: Tensor, y: Tensor, ptr_x: Any, ptr_y: Any) -> Tensor:
        rows: Tensor = drop_in.nearest(x, y, _batch(ptr_x), _batch(ptr_y))
        return rows

    for function in (fps, knn, radius, nearest, drop_in.grid_cluster):
        setattr(torch.ops.pyg, function.__name__, function)
        setattr(typing, f"WITH_{function.__name__.upper()}", True)


def _batch(ptr: Tensor | None) -> Tensor | None:
    """Offsets (B + 1,) -> the cloud of each point (n,)."""
    if ptr is None:
        return None
    clouds = torch.arange(ptr.size(0) - 1, device=ptr.device)
    return clouds.repeat_interleave(ptr.diff())
