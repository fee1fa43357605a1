"""Point clouds made from a seed, for tests, benchmarks and the demo; numpy only."""

from farpoint_training.scenes.sensor import lidar_scan

__all__ = ["lidar_scan"]
