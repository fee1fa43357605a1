"""The tensors of a served program: their roles and dimensions, and the batching of requests."""

from dataclasses import dataclass
from enum import Enum
from functools import cached_property

CLOUDS, ROWS, ALL_ROWS, OFFSETS = "B", "N", "P", "B+1"
DTYPES = (
    *("float16", "float32", "float64", "bool"),
    *("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"),
)


class ProgramError(Exception):
    """A program or its manifest cannot be served; the message is one sentence."""


def first_line(error: Exception) -> str:
    """The first line of an error's text, or its type: torch adds many."""
    return (str(error).strip().splitlines() or [type(error).__name__])[0]


class Role(str, Enum):
    """The role of a tensor."""

    POINTS = "points"
    """The clouds, 3 coordinates of each point and maybe features behind them; of one input."""
    PER_POINT = "per_point"
    PER_SAMPLE = "per_sample"
    """Rows of points that the program chose; of outputs."""
    PER_CLOUD = "per_cloud"
    """A value of each cloud; of an input it may have named dimensions of its own, such as the
    points of a second cloud."""
    LENGTHS = "lengths"
    """Points of each cloud, (B,)."""
    OFFSETS = "offsets"
    """First row of each cloud and the end, (B+1,), or only the ends, (B,), as in pointops."""
    COUNTS = "counts"
    """Rows of each cloud in the outputs per sample that name it, (B,); of outputs."""


INPUT_ROLES = {Role.POINTS, Role.PER_POINT, Role.PER_CLOUD, Role.LENGTHS, Role.OFFSETS}
OUTPUT_ROLES = {Role.PER_POINT, Role.PER_SAMPLE, Role.PER_CLOUD, Role.COUNTS}


@dataclass(frozen=True)
class TensorSpec:
    """One tensor of the program's graph."""

    name: str
    role: Role
    dtype: str
    shape: tuple[int | str, ...]
    """Sizes, or names of dimensions: B clouds, N rows of each, P rows of all; others are free."""
    nonfinite: bool = False
    """Whether an input may hold NaN or infinity."""
    counts: str = ""
    """The output that says how many rows of each cloud count; of an output per sample."""

    @cached_property
    def row_axis(self) -> int | None:
        """Axis of points or samples; None for a tensor without one."""
        names = {ROWS, ALL_ROWS}
        if self.role is Role.PER_SAMPLE:
            names = {d for d in self.shape if isinstance(d, str)} - {CLOUDS}
        return next((i for i, size in enumerate(self.shape) if size in names), None)

    @cached_property
    def cloud_axis(self) -> int | None:
        """Axis of clouds; None for a program of one cloud, and for concatenated clouds."""
        return self.shape.index(CLOUDS) if CLOUDS in self.shape else None

    @cached_property
    def own(self) -> list[str]:
        """Named dimensions besides clouds and points."""
        reserved = {CLOUDS, ROWS, ALL_ROWS, OFFSETS}
        return [size for size in self.shape if isinstance(size, str) and size not in reserved]

    @cached_property
    def row_shape(self) -> tuple[int | str, ...]:
        """Shape of one row, or of the value of one cloud if there are no rows."""
        axes = {self.row_axis, self.cloud_axis}
        return tuple(size for i, size in enumerate(self.shape) if i not in axes)


class Batching(str, Enum):
    """Which requests may run as one call of the program."""

    RAGGED = "ragged"
    """Any: concatenated rows, and offsets."""
    PADDED = "padded"
    """Any of similar size: padded with zeros to the longest, and lengths."""
    EQUAL = "equal"
    """Those whose clouds have as many points."""
    ALONE = "alone"
    """None: the clouds of one request are one call."""
