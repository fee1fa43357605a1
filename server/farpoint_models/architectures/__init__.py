"""Published point networks on the ops, without weights."""

from farpoint_models.architectures.point_transformer import PointTransformer
from farpoint_models.architectures.pointnet2 import PointNet2Classifier, PointNet2PartSegmenter

__all__ = ["PointNet2Classifier", "PointNet2PartSegmenter", "PointTransformer"]
