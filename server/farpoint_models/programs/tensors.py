"""A tensor of a served program: what it is, and which of its dimensions mean what."""

from dataclasses import dataclass
from enum import Enum

CLOUDS, ROWS, ALL_ROWS, OFFSETS = "B", "N", "P", "B+1"
DTYPES = (
    *("float16", "float32", "float64", "bool"),
    *("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"),
)


class ProgramError(Exception):
    """A program or its manifest cannot be served; the text is one sentence."""


class Role(str, Enum):
    """What a tensor is."""

    POINTS = "points"
    """Coordinates of the clouds; one input is this."""
    PER_POINT = "per_point"
    PER_SAMPLE = "per_sample"
    """Rows for points that the program chose; an output alone."""
    PER_CLOUD = "per_cloud"
    LENGTHS = "lengths"
    """Points of each cloud, (B,)."""
    OFFSETS = "offsets"
    """First row of each cloud and the end, (B+1,), or as pointops has it the ends alone, (B,)."""
    COUNTS = "counts"
    """Rows of each cloud in the outputs per sample that name it, (B,); an output alone."""


INPUT_ROLES = {Role.POINTS, Role.PER_POINT, Role.PER_CLOUD, Role.LENGTHS, Role.OFFSETS}
OUTPUT_ROLES = {Role.PER_POINT, Role.PER_SAMPLE, Role.PER_CLOUD, Role.COUNTS}


@dataclass(frozen=True)
class TensorSpec:
    """One tensor of the program, as its graph has it."""

    name: str
    role: Role
    dtype: str
    shape: tuple[int | str, ...]
    """Sizes, or names of dimensions: B clouds, N rows of each, P rows of all; others are free."""
    nonfinite: bool = False
    """Whether an input may hold NaN or infinity."""
    counts: str = ""
    """The output that says how many rows of each cloud count; of an output per sample."""

    @property
    def row_axis(self) -> int | None:
        """Where points or samples are; None for what has none."""
        names = {ROWS, ALL_ROWS}
        if self.role is Role.PER_SAMPLE:
            names = {d for d in self.shape if isinstance(d, str)} - {CLOUDS}
        return next((i for i, size in enumerate(self.shape) if size in names), None)

    @property
    def cloud_axis(self) -> int | None:
        """Where clouds are; None for a program of one cloud, and where they lie end to end."""
        return self.shape.index(CLOUDS) if CLOUDS in self.shape else None

    @property
    def row_shape(self) -> tuple[int | str, ...]:
        """Sizes of what belongs to one row, or to one cloud where there are no rows."""
        axes = {self.row_axis, self.cloud_axis}
        return tuple(size for i, size in enumerate(self.shape) if i not in axes)
