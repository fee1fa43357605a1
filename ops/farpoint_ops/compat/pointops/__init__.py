"""Drop-in for the ``pointops`` with offsets of Point Transformer and Pointcept: (n, 3), ends (B,).

Change ``import pointops`` or ``from lib.pointops.functions import pointops`` to
``from farpoint_ops.compat import pointops``. The batched library of the same name is
`farpoint_ops.compat.pointops.batched`.

The two releases share this module. Where one name has two orders of arguments,

* ``grouping(input, idx)`` is Point Transformer's, ``grouping(idx, feat, xyz, ...)`` Pointcept's;
* ``KNNQuery.apply`` takes Pointcept's order, which is that of ``knn_query``; Point Transformer's is
  that of ``knnquery``.
"""

from typing import TYPE_CHECKING

from farpoint_ops.compat._applied import Applied
from farpoint_ops.compat.pointops._offsets import batch2offset, offset2batch
from farpoint_ops.compat.pointops.balls import ball_query, random_ball_query
from farpoint_ops.compat.pointops.features import (
    aggregation,
    attention_fusion_step,
    attention_relation_step,
    grouping,
    grouping2,
    interpolation2,
    subtraction,
)
from farpoint_ops.compat.pointops.groups import (
    ball_query_and_group,
    knn_query_and_group,
    query_and_group,
    queryandgroup,
)
from farpoint_ops.compat.pointops.queries import farthest_point_sampling, knn_query, knnquery

__all__ = [
    "Aggregation",
    "AttentionFusionStep",
    "AttentionRelationStep",
    "BallQuery",
    "FarthestPointSampling",
    "FurthestSampling",
    "Grouping",
    "Interpolation",
    "KNNQuery",
    "RandomBallQuery",
    "Subtraction",
    "aggregation",
    "attention_fusion_step",
    "attention_relation_step",
    "ball_query",
    "ball_query_and_group",
    "batch2offset",
    "farthest_point_sampling",
    "furthestsampling",
    "grouping",
    "grouping2",
    "interpolation",
    "interpolation2",
    "knn_query",
    "knn_query_and_group",
    "knnquery",
    "offset2batch",
    "query_and_group",
    "queryandgroup",
    "random_ball_query",
    "subtraction",
]

furthestsampling = farthest_point_sampling
interpolation = interpolation2

FarthestPointSampling = FurthestSampling = Applied(farthest_point_sampling)
Grouping = Applied(grouping2)
Interpolation = Applied(interpolation2)
BallQuery = Applied(ball_query)
RandomBallQuery = Applied(random_ball_query)
KNNQuery = Applied(knn_query)
Subtraction = Applied(subtraction)
Aggregation = Applied(aggregation)
AttentionRelationStep = Applied(attention_relation_step)
AttentionFusionStep = Applied(attention_fusion_step)

if not TYPE_CHECKING:

    def __getattr__(name: str) -> object:
        from farpoint_ops.compat.pointops.batched import __all__ as batched_names

        where = f": it is in {__name__}.batched" if name in batched_names else ""
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}{where}")
