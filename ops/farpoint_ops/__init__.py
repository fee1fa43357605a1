"""Exact, differentiable point cloud ops for PyTorch, on the CPU and in CUDA."""

from typing import TYPE_CHECKING

from farpoint_ops._load import load

load()

from farpoint_ops import _fakes as _fakes  # noqa: E402  the ops exist from here on
from farpoint_ops import _vmap  # noqa: E402
from farpoint_ops.fps import (  # noqa: E402
    farthest_point_sample,
    farthest_point_sample_ragged,
)
from farpoint_ops.gather import gather_points, group_points, interpolate  # noqa: E402
from farpoint_ops.methods import (  # noqa: E402
    poisson_disk_sample,
    random_sample,
    random_sample_ragged,
)
from farpoint_ops.neighbors import (  # noqa: E402
    ball_query,
    count_points,
    knn,
    nearest_sample,
)
from farpoint_ops.voxel_grid import voxel_grid_mean, voxel_grid_sample  # noqa: E402

# Aliases, as in pointnet2.
furthest_point_sample = farthest_point_sample
furthest_point_sample_ragged = farthest_point_sample_ragged

_vmap.register()

__all__ = [
    "ball_query",
    "count_points",
    "farthest_point_sample",
    "farthest_point_sample_ragged",
    "gather_points",
    "group_points",
    "interpolate",
    "knn",
    "nearest_sample",
    "poisson_disk_sample",
    "random_sample",
    "random_sample_ragged",
    "voxel_grid_mean",
    "voxel_grid_sample",
]

__version__: str

if not TYPE_CHECKING:  # a type checker would accept any name

    def __getattr__(name: str) -> str:
        """The version, read on demand to keep the import fast."""
        if name != "__version__":
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        from importlib.metadata import version

        return version("farpoint-ops")
