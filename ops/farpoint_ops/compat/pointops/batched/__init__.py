"""Drop-in for the batched ``pointops`` of D-PCC and PointWeb: (B, N, 3), features (B, C, N).

Change ``from models.pointops.functions import pointops`` to
``from farpoint_ops.compat.pointops import batched as pointops``.

Indices are int32. Indices, distances and counts carry no gradient; features and weights do.
"""

from farpoint_ops.compat._applied import Applied
from farpoint_ops.compat._batched import GroupAll
from farpoint_ops.compat.pointops.batched.functions import (
    ballquery,
    featuredistribute,
    featuregather,
    furthestsampling,
    gathering,
    grouping,
    grouping_int,
    interpolation,
    knnquery_exclude,
    knnquery_heap,
    nearestneighbor,
)
from farpoint_ops.compat.pointops.batched.groups import QueryAndGroup, QueryAndGroupForKPConv
from farpoint_ops.compat.pointops.batched.labels import (
    labelstat_and_ballquery,
    labelstat_ballrange,
    labelstat_idx,
)

__all__ = [
    "BallQuery",
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
    "ballquery",
    "featuredistribute",
    "featuregather",
    "furthestsampling",
    "gathering",
    "grouping",
    "grouping_int",
    "interpolation",
    "knnquery",
    "knnquery_exclude",
    "knnquery_heap",
    "knnquery_naive",
    "labelstat_and_ballquery",
    "labelstat_ballrange",
    "labelstat_idx",
    "nearestneighbor",
]

knnquery = knnquery_naive = knnquery_heap

FurthestSampling = Applied(furthestsampling)
Gathering = Applied(gathering)
Grouping = Applied(grouping)
GroupingInt = Applied(grouping_int)
NearestNeighbor = Applied(nearestneighbor)
Interpolation = Applied(interpolation)
BallQuery = Applied(ballquery)
KNNQuery = KNNQuery_Heap = KNNQueryNaive = Applied(knnquery_heap)
KNNQueryExclude = Applied(knnquery_exclude)
FeatureDistribute = Applied(featuredistribute)
FeatureGather = Applied(featuregather)
LabelStatIdx = Applied(labelstat_idx)
LabelStatBallRange = Applied(labelstat_ballrange)
LabelStatAndBallQuery = Applied(labelstat_and_ballquery)
