"""Reference implementations in plain torch; tests compare the compiled ops with them bit for bit.

The twins take the arguments of the ops and check none of them.
"""

from farpoint_ops.reference.distance import fma, squared_distance
from farpoint_ops.reference.gathering import (
    gather_points,
    group_points,
    interpolate,
    interpolate_dot,
    interpolate_scatter,
    scatter_points,
)
from farpoint_ops.reference.neighbors import (
    ball_query,
    count_points,
    knn,
    knn_ragged,
    nearest_sample,
)
from farpoint_ops.reference.sampling import (
    furthest_point_sample,
    furthest_point_sample_ragged,
    furthest_point_sample_with_distances,
    random_starts,
)

__all__ = [
    "ball_query",
    "count_points",
    "fma",
    "furthest_point_sample",
    "furthest_point_sample_ragged",
    "furthest_point_sample_with_distances",
    "gather_points",
    "group_points",
    "interpolate",
    "interpolate_dot",
    "interpolate_scatter",
    "knn",
    "knn_ragged",
    "nearest_sample",
    "random_starts",
    "scatter_points",
    "squared_distance",
]
