"""Metrics of the batches of one device."""

from farpoint_server.observability.metrics.instruments import Instruments
from farpoint_server.scheduling.lane import BatchMetrics


def batch_metrics(instruments: Instruments, device: str) -> BatchMetrics:
    """What the scheduler of a device tells of its batches.

    Args:
        instruments: Of the server.
        device: As torch names it, the label of what is counted by device.
    """
    sizes, counted = instruments.batch_requests.observe, instruments.device_requests.labels(device)

    def requests(number: float) -> None:
        sizes(number)
        counted.inc(number)

    seconds = instruments.device_seconds.labels(device)
    return BatchMetrics(requests, instruments.batch_points.observe, seconds.inc)
