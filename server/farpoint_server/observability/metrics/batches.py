"""Metrics of the batches of one device."""

from farpoint_server.observability.metrics.instruments import Instruments
from farpoint_server.scheduling.lane import BatchMetrics


def batch_metrics(instruments: Instruments, device: str) -> BatchMetrics:
    """What the scheduler of a device tells of its batches.

    Args:
        instruments: Of the server.
        device: As torch names it, the label of what is counted by device.
    """
    return BatchMetrics(
        instruments.batch_requests.observe,
        instruments.batch_points.observe,
        instruments.device_requests.labels(device).inc,
        instruments.device_seconds.labels(device).inc,
    )
