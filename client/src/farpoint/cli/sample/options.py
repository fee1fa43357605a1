"""How every file is sampled and reported."""

import re
from dataclasses import dataclass, field
from pathlib import Path

from farpoint._rpcs.methods import Method, RandomSampling, VoxelGrid
from farpoint.errors import InvalidArgumentError
from farpoint.io.decoder import Bounds
from farpoint.io.options import ReadOptions


@dataclass(frozen=True)
class Amount:
    """How many points to choose: a number, or a share of those that may be chosen."""

    count: int | None = None
    share: float | None = None

    def of(self, points: int) -> int:
        """The number for a cloud; of a share at least one."""
        if self.count is not None:
            return self.count
        return max(1, round(points * (self.share or 0.0)))


def parse_amount(text: str) -> Amount:
    """`1024` or `5%`.

    Raises:
        InvalidArgumentError: it is neither.
    """
    share = re.fullmatch(r"(\d+(?:\.\d*)?|\.\d+)\s*%", text)
    if share and 0 < float(share[1]) <= 100:
        return Amount(share=float(share[1]) / 100)
    if re.fullmatch(r"[+-]?\d+", text):
        return Amount(count=int(text))
    raise InvalidArgumentError(f"-m must be a number or a share like 5%, got {text!r}", field="m")


@dataclass(frozen=True)
class Options:
    """The command line, as far as it is the same for every file.

    Attributes:
        amount: how many points to choose; with a radius at most.
        radius: where sampling ends, at a covering radius of at most this; None for nowhere.
        method: how points are chosen; None for the farthest.
        start: row that is chosen first; None is the first that may be chosen.
        ignore_nonfinite: rows with NaN or infinity are never chosen, instead of an error.
        skip_zero: rows that are exactly (0, 0, 0) are never chosen: no-returns of a scanner.
        all_if_fewer: a cloud with fewer points than asked for is written whole.
        to: suffix of the outputs in a folder, instead of the input's own.
        workers: files in flight.
    """

    amount: Amount
    radius: float | None = None
    method: Method | None = None
    start: int | None = None
    ignore_nonfinite: bool = False
    skip_zero: bool = False
    all_if_fewer: bool = False
    indices: bool = False
    as_json: bool = False
    resume: bool = False
    recursive: bool = False
    to: str | None = None
    picture: Path | None = None
    workers: int = 1
    read: ReadOptions = field(default_factory=ReadOptions)
    bounds: Bounds = field(default_factory=Bounds)

    @property
    def is_counted(self) -> bool:
        """Whether the number of points is asked for, and not found out."""
        return self.radius is None and isinstance(self.method, RandomSampling | None)

    @property
    def has_start(self) -> bool:
        """Whether some row is chosen first."""
        return not isinstance(self.method, RandomSampling | VoxelGrid)
