"""Sampling of one cloud: checked here before anything is sent."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np
from numpy.typing import NDArray

from farpoint._rpcs.methods import VoxelGrid
from farpoint._types import Array
from farpoint.cli.sample.options import Options
from farpoint.errors import InvalidArgumentError
from farpoint.results import Sample

if TYPE_CHECKING:
    from farpoint._client import Client

Rows = NDArray[np.int64]


@dataclass(frozen=True)
class Choice:
    """The rows chosen from a cloud, in order of choice.

    Attributes:
        rows: (m,) int64.
        radius: the covering radius; None where it is not measured.
        sample: the server's; None where every row is chosen.
    """

    rows: Rows
    radius: float | None
    sample: Sample | None = None


def choose(client: "Client", points: Array, options: Options) -> Choice:
    """Samples a cloud."""
    rows = candidates(points, options)
    m: int | None = _amount(len(rows), options)
    if m == len(rows) and options.all_if_fewer and options.is_counted:
        return Choice(rows, 0.0)
    if isinstance(options.sampling, VoxelGrid):
        m = None
    start = _start(rows, options)
    policy: Literal["ignore", "reject"] = "ignore" if options.ignores_nonfinite else "reject"
    if options.skip_zero:  # the others are not sent, and all that are sent are finite
        points, policy = points[rows], "reject"
    elif options.has_start:
        start = int(rows[start])
    sample = client.sample(
        points,
        m,
        start=start,
        nonfinite=policy,
        radius=options.covering_radius,
        method=options.sampling,
    )
    indices = rows[sample.indices] if options.skip_zero else sample.indices
    radius = sample.covering_radius if len(sample.distances) else None
    return Choice(indices, radius, sample=sample)


def candidates(points: Array, options: Options) -> Rows:
    """The rows that may be sampled."""
    finite = np.isfinite(points).all(axis=1)
    if not options.ignores_nonfinite and not finite.all():
        first = int(np.argmin(finite))
        raise InvalidArgumentError(
            f"{int((~finite).sum())} rows are not finite, the first is {first}: "
            "--nonfinite ignore never chooses them",
            field="points",
        )
    if options.skip_zero:
        finite &= points.any(axis=1)
    return np.flatnonzero(finite)


def _amount(usable: int, options: Options) -> int:
    """The number of samples."""
    m = options.amount.of(usable)
    if options.all_if_fewer and m > usable > 0:
        return usable
    if not 1 <= m <= usable:
        hint = "" if m < 1 or not usable else ": --all-if-fewer takes them all"
        raise InvalidArgumentError(
            f"-m must be from 1 to the {usable} points that may be chosen, got {m}{hint}", field="m"
        )
    return m


def _start(rows: Rows, options: Options) -> int:
    if options.start is None:
        return 0
    if not options.has_start:
        raise InvalidArgumentError(
            "--start goes with --method farthest-point or poisson-disk", field="start"
        )
    place = int(np.searchsorted(rows, options.start))
    if place == len(rows) or rows[place] != options.start:
        raise InvalidArgumentError(
            f"--start must be a row that may be chosen, of those up to {rows[-1]}, "
            f"got {options.start}",
            field="start",
        )
    return place
