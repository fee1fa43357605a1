"""Transforms for data pipelines: torch DataLoader, PyTorch Geometric, Pointcept.

from farpoint.transforms import FarthestPointSample

FarthestPointSample(1024)                           # in this process, by farpoint_ops
FarthestPointSample(1024, server="gpu-node:50051")  # by a server, the same indices
"""

from farpoint.transforms.farthest_point import FarthestPointSample

__all__ = ["FarthestPointSample"]
