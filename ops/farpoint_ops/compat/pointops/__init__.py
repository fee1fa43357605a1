"""Both libraries called ``pointops``: the batched one and the one with offsets, in one module.

Change ``import pointops`` (Point Transformer, Pointcept) or
``from models.pointops.functions import pointops`` (D-PCC, PointWeb) to
``from farpoint_ops.compat import pointops``. Four names mean different things in the two, and are
told apart by their arguments:

| call | flavor |
|---|---|
| ``furthestsampling(xyz, m)`` | batched |
| ``furthestsampling(xyz, offset, new_offset)`` | offsets |
| ``knnquery(nsample, xyz[, new_xyz])`` -> rows | batched |
| ``knnquery(nsample, xyz, new_xyz, offset, new_offset)`` -> rows, distances | offsets |
| ``grouping(features, idx)`` of (B, C, N) | batched |
| ``grouping(features, idx)`` of (n, c), ``grouping(idx, feat, xyz, ...)`` | offsets |
| ``interpolation(features, idx, weight)`` | batched |
| ``interpolation(xyz, new_xyz, feat, offset, new_offset[, k])`` | offsets |
"""

from farpoint_ops.compat._applied import Applied
from farpoint_ops.compat._batched import GroupAll
from farpoint_ops.compat.pointops._offsets import batch2offset, offset2batch
from farpoint_ops.compat.pointops.balls import ball_query, random_ball_query
from farpoint_ops.compat.pointops.batched import (
    QueryAndGroup,
    QueryAndGroupForKPConv,
    ballquery,
    featuredistribute,
    featuregather,
    gathering,
    grouping_int,
    knnquery_exclude,
    knnquery_heap,
    labelstat_and_ballquery,
    labelstat_ballrange,
    labelstat_idx,
    nearestneighbor,
)
from farpoint_ops.compat.pointops.either import (
    any_ball_query,
    any_knn_query,
    furthestsampling,
    grouping,
    interpolation,
    knnquery,
)
from farpoint_ops.compat.pointops.features import (
    aggregation,
    attention_fusion_step,
    attention_relation_step,
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
from farpoint_ops.compat.pointops.queries import farthest_point_sampling, knn_query

__all__ = [
    "Aggregation",
    "AttentionFusionStep",
    "AttentionRelationStep",
    "BallQuery",
    "FarthestPointSampling",
    "FeatureDistribute",
    "FeatureGather",
    "FurthestSampling",
    "Gathering",
    "GroupAll",
    "Grouping",
    "GroupingInt",
    "Interpolation",
    "KNNQuery",
    "KNNQueryExclude",
    "KNNQueryNaive",
    "KNNQuery_Heap",
    "LabelStatAndBallQuery",
    "LabelStatBallRange",
    "LabelStatIdx",
    "NearestNeighbor",
    "QueryAndGroup",
    "QueryAndGroupForKPConv",
    "RandomBallQuery",
    "Subtraction",
    "aggregation",
    "attention_fusion_step",
    "attention_relation_step",
    "ball_query",
    "ball_query_and_group",
    "ballquery",
    "batch2offset",
    "farthest_point_sampling",
    "featuredistribute",
    "featuregather",
    "furthestsampling",
    "gathering",
    "grouping",
    "grouping2",
    "grouping_int",
    "interpolation",
    "interpolation2",
    "knn_query",
    "knn_query_and_group",
    "knnquery",
    "knnquery_exclude",
    "knnquery_heap",
    "knnquery_naive",
    "labelstat_and_ballquery",
    "labelstat_ballrange",
    "labelstat_idx",
    "nearestneighbor",
    "offset2batch",
    "query_and_group",
    "queryandgroup",
    "random_ball_query",
    "subtraction",
]

knnquery_naive = knnquery_heap

FurthestSampling = Applied(furthestsampling)
FarthestPointSampling = Applied(farthest_point_sampling)
Gathering = Applied(gathering)
Grouping = Applied(grouping)
GroupingInt = Applied(grouping_int)
NearestNeighbor = Applied(nearestneighbor)
Interpolation = Applied(interpolation)
BallQuery = Applied(any_ball_query)
RandomBallQuery = Applied(random_ball_query)
KNNQuery = Applied(any_knn_query)
KNNQuery_Heap = KNNQueryNaive = Applied(knnquery_heap)
KNNQueryExclude = Applied(knnquery_exclude)
FeatureDistribute = Applied(featuredistribute)
FeatureGather = Applied(featuregather)
LabelStatIdx = Applied(labelstat_idx)
LabelStatBallRange = Applied(labelstat_ballrange)
LabelStatAndBallQuery = Applied(labelstat_and_ballquery)
Subtraction = Applied(subtraction)
Aggregation = Applied(aggregation)
AttentionRelationStep = Applied(attention_relation_step)
AttentionFusionStep = Applied(attention_fusion_step)
