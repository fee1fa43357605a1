"""The rows of one cloud: checked here before anything is sent, chosen by the server."""

from collections.abc import Iterable
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
        radius: no point that may be chosen is farther than this from a chosen one; None where
            it is not measured.
        parts: in how many parts the cloud was sampled. Of one, `radius` is the covering radius
            itself; of several it is a bound.
        sample: of a cloud that was sent whole.
    """

    rows: Rows
    radius: float | None
    parts: int = 1
    sample: Sample | None = None


def choose(client: "Client", points: Array, options: Options) -> Choice:
    """Samples a cloud whole."""
    rows = candidates(points, options, 0)
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


def candidates(points: Array, options: Options, begin: int) -> Rows:
    """The rows that may be chosen."""
    finite = np.isfinite(points).all(axis=1)
    if not options.ignores_nonfinite and not finite.all():
        first = begin + int(np.argmin(finite))
        raise InvalidArgumentError(
            f"{int((~finite).sum())} rows are not finite, the first is {first}: "
            "--nonfinite ignore never chooses them",
            field="points",
        )
    if options.skip_zero:
        finite &= points.any(axis=1)
    return np.flatnonzero(finite)


def _amount(usable: int, options: Options) -> int:
    """The number of rows to choose."""
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


def choose_in_parts(
    client: "Client", parts: Iterable[Array], count: int, limit: int, options: Options
) -> Choice:
    """Samples each part of a cloud, then the samples.

    A part's sample covers it within its covering radius r, and the sample of the samples covers
    those within R. So no point of the cloud is farther than the largest r, plus R, from a chosen
    one. Both are measured; the sum is what is reported.

    Args:
        parts: coordinates, at most `limit` points each, in the order of the rows.
        count: points of all parts.
        limit: points that the server takes at once.
    """
    if options.covering_radius is not None or options.sampling is not None:
        option = "--radius" if options.sampling is None else "--method"
        raise InvalidArgumentError(
            f"{option} samples a cloud whole, and the server takes {limit} points at once: "
            "choose a number of the farthest points with -m",
            field=option.lstrip("-"),
        )
    pool = _Pool(client, limit, options)
    begin = 0
    for points in parts:
        pool.add(points, begin, options.amount.of(count))
        begin += len(points)
    return pool.finish(_amount(pool.usable, options))


class _Pool:
    """Samples of parts, sampled again whenever there are more than the server takes."""

    def __init__(self, client: "Client", limit: int, options: Options) -> None:
        self._client, self._limit, self._options = client, limit, options
        self._rows: list[Rows] = []
        self._points: list[Array] = []
        self._radius = 0.0
        self._part_radius = 0.0
        self._size = 0
        self.usable = 0
        self.parts = 0

    def add(self, points: Array, begin: int, m: int) -> None:
        """Samples a part, its first row being `begin` of the file."""
        if 2 * m > self._limit:
            raise InvalidArgumentError(
                f"the cloud is sampled in parts of {self._limit} points, as many as the server "
                f"takes: -m must be at most half of that, got {m}",
                field="m",
            )
        rows = candidates(points, self._options, begin)
        self.usable += len(rows)
        self.parts += 1
        if not len(rows):
            return
        if self._size + min(m, len(rows)) > self._limit:
            self._reduce(m)
        chosen, radius = self._sample(points[rows], rows + begin, m)
        self._keep(points[chosen - begin], chosen)
        self._part_radius = max(self._part_radius, radius)

    def finish(self, m: int) -> Choice:
        """The sample of all that was added."""
        points, rows = np.concatenate(self._points), np.concatenate(self._rows)
        if self._options.start is not None and self._options.start not in rows:
            _start(np.sort(rows), self._options)
        chosen, radius = self._sample(points, rows, m)
        return Choice(chosen, self._radius + self._part_radius + radius, parts=self.parts)

    def _sample(self, points: Array, rows: Rows, m: int) -> tuple[Rows, float]:
        if m >= len(rows):
            return rows, 0.0
        places = np.flatnonzero(rows == self._options.start)
        sample = self._client.sample(points, m, start=int(places[0]) if len(places) else 0)
        return rows[sample.indices], sample.covering_radius

    def _reduce(self, m: int) -> None:
        """Samples what is kept: all that it covered is covered within one radius more."""
        points, rows = np.concatenate(self._points), np.concatenate(self._rows)
        chosen, radius = self._sample(points, rows, m)
        place = {row: i for i, row in enumerate(rows.tolist())}
        self._rows, self._points, self._size = [], [], 0
        self._keep(points[[place[row] for row in chosen.tolist()]], chosen)
        self._radius += radius

    def _keep(self, points: Array, rows: Rows) -> None:
        self._points.append(points)
        self._rows.append(rows)
        self._size += len(rows)
