"""Sampling by the ops in this process, with the method and the results of a client."""

import time
from typing import Literal

from farpoint._rpcs.methods import Method
from farpoint._tensors import in_common_dtype
from farpoint._types import Array
from farpoint.errors import FailedPreconditionError, InvalidArgumentError
from farpoint.results import Sample, Timings

MAX_POINTS = 1 << 24
"""Points that are sampled at once, as by a server with its default settings: larger clouds of files
are sampled in the same parts, so the rows are the same."""


class OpsSampler:
    """Samples on a device.

    Args:
        device: as torch names it; "cuda" is the GPU that Ray has given this process.

    Raises:
        FailedPreconditionError: the package `farpoint-ops` is not there.
    """

    def __init__(self, device: str) -> None:
        try:
            from farpoint_ops.arrays import sample_array
        except ImportError as error:
            raise FailedPreconditionError(
                "sampling on Ray needs the package farpoint-ops on every node: "
                f"pip install 'farpoint[ray]' ({error})"
            ) from error
        self._sample = sample_array
        self._device = device

    def sample(
        self,
        points: Array,
        m: int | None,
        *,
        start: int = 0,
        nonfinite: Literal["reject", "ignore"] = "reject",
        radius: float | None = None,
        method: Method | None = None,
    ) -> Sample:
        """As `Client.sample` of one cloud (N, 3), with the same rows; by no other method.

        Raises:
            InvalidArgumentError: an argument is wrong.
        """
        if method is not None or (m is None and radius is None):
            raise InvalidArgumentError(
                f"on Ray give m or a radius, and no method, got {m!r}, {radius!r} and {method!r}",
                field="method",
            )
        began = time.perf_counter()
        (cloud,) = in_common_dtype([points])
        try:
            rows, distances, origin = self._sample(
                cloud,
                len(cloud) if m is None else m,
                start=start,
                nonfinite=nonfinite,
                radius=radius,
                device=self._device,
            )
        except (ValueError, IndexError) as error:
            raise InvalidArgumentError(str(error), field="points") from error
        took = (time.perf_counter() - began) * 1e3
        timings = Timings(0.0, took, took, 0.0, took)
        return Sample(rows, points[rows], None, distances, timings, origin, "")
