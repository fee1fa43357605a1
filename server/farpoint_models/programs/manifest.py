"""The manifest of a served program: the roles of its tensors, and the batching of requests."""

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from enum import Enum
from typing import Any, TypeVar

CLOUDS, ROWS, ALL_ROWS, OFFSETS = "B", "N", "P", "B+1"
DTYPES = (
    *("float16", "float32", "float64", "bool"),
    *("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"),
)


class ProgramError(Exception):
    """A program or its manifest cannot be served; the message is one sentence."""


class Role(str, Enum):
    """The role of a tensor."""

    POINTS = "points"
    """Coordinates of the clouds; one input is this."""
    PER_POINT = "per_point"
    PER_SAMPLE = "per_sample"
    """Rows of points that the program chose; of outputs."""
    PER_CLOUD = "per_cloud"
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

    @property
    def row_axis(self) -> int | None:
        """Axis of points or samples; None for a tensor without one."""
        names = {ROWS, ALL_ROWS}
        if self.role is Role.PER_SAMPLE:
            names = {d for d in self.shape if isinstance(d, str)} - {CLOUDS}
        return next((i for i, size in enumerate(self.shape) if size in names), None)

    @property
    def cloud_axis(self) -> int | None:
        """Axis of clouds; None for a program of one cloud, and for concatenated clouds."""
        return self.shape.index(CLOUDS) if CLOUDS in self.shape else None

    @property
    def row_shape(self) -> tuple[int | str, ...]:
        """Shape of one row, or of the value of one cloud if there are no rows."""
        axes = {self.row_axis, self.cloud_axis}
        return tuple(size for i, size in enumerate(self.shape) if i not in axes)


FORMAT = "farpoint.program/1"
FILE_NAME = "farpoint.json"
"""In the archive's extra files; next to `NAME.pt2` it is `NAME.pt2.json`."""
# Rows are numbered by int32; torch.export writes the largest int64 for no limit.
MAX_LEAST, MAX_MOST = (1 << 31) - 1, (1 << 63) - 1
_NAME = re.compile(r"[^\x00-\x1f\x7f\ud800-\udfff]{1,256}")
E = TypeVar("E", bound=Enum)


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


@dataclass(frozen=True)
class Manifest:
    """Inputs and outputs of a program, checked for consistency."""

    batching: Batching
    inputs: tuple[TensorSpec, ...]
    """In the order of the graph."""
    outputs: tuple[TensorSpec, ...]
    limits: Mapping[str, tuple[int, int | None]] = field(default_factory=dict)
    """Least and most of a named dimension; None is without limit."""
    shift_float64: bool = False
    """Whether float64 coordinates are shifted to the first point of their cloud and narrowed, as
    for Sample: for programs that use only differences of coordinates."""

    def __post_init__(self) -> None:
        _check(self)

    @property
    def points(self) -> TensorSpec:
        """The input with the clouds."""
        return next(spec for spec in self.inputs if spec.role is Role.POINTS)

    @property
    def extra_inputs(self) -> list[TensorSpec]:
        """The other inputs."""
        return [spec for spec in self.inputs if spec.role in (Role.PER_POINT, Role.PER_CLOUD)]

    @property
    def has_clouds(self) -> bool:
        """Whether one call may hold several clouds."""
        return self.is_ragged or self.points.cloud_axis is not None

    def limit(self, name: str) -> tuple[int, int | None]:
        """Minimum and maximum of a dimension."""
        return self.limits.get(name, (1, None))

    def range_of(self, size: int | str) -> tuple[int, int | None]:
        """Minimum and maximum of a dimension of a shape; those of B for B+1."""
        if not isinstance(size, str):
            return size, size
        return self.limit(CLOUDS if size == OFFSETS else size)

    def within(self, name: str, wanted: int) -> int:
        """The allowed size of a dimension nearest to a given one."""
        least, most = self.limit(name)
        return max(least, wanted if most is None else min(wanted, most))

    @property
    def is_ragged(self) -> bool:
        """Whether clouds are concatenated."""
        return self.batching is Batching.RAGGED

    def to_json(self) -> str:
        """The manifest as JSON for `parse_manifest`."""
        return json.dumps({"format": FORMAT, **asdict(self)}, indent=1)


def parse_manifest(text: str | bytes) -> Manifest:
    """A manifest from its JSON; raises ProgramError."""
    try:
        content = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ProgramError(f"manifest: expected JSON, got {error}") from None
    found = content.get("format") if isinstance(content, dict) else None
    if found != FORMAT:
        raise ProgramError(f"manifest: expected the format {FORMAT!r}, got {found!r}")
    try:
        return Manifest(
            batching=_member(Batching, content["batching"], "batching"),
            inputs=tuple(_spec(item) for item in content["inputs"]),
            outputs=tuple(_spec(item) for item in content["outputs"]),
            limits={k: _limit(k, v) for k, v in content.get("limits", {}).items()},
            shift_float64=bool(content.get("shift_float64", False)),
        )
    except KeyError as error:
        raise ProgramError(f"manifest: expected the key {error}, got none") from None
    except (TypeError, ValueError, AttributeError) as error:
        raise ProgramError(f"manifest: expected what docs/models.md has, {error}") from None


def _spec(item: Mapping[str, Any]) -> TensorSpec:
    known = {**item, "role": _member(Role, item["role"], f"role of {item['name']}")}
    return TensorSpec(**{**known, "shape": tuple(item["shape"])})


def _member(kind: type[E], value: object, name: str) -> E:
    try:
        return kind(value)
    except ValueError:
        known = ", ".join(member.value for member in kind)
        raise ProgramError(f"manifest: {name}: expected one of {known}, got {value!r}") from None


def _limit(name: str, value: Any) -> tuple[int, int | None]:
    least, most = value
    ends = [least, least if most is None else most]
    if not all(type(end) is int for end in ends) or not 1 <= ends[0] <= ends[1] <= MAX_MOST:
        raise ProgramError(
            f"manifest: limits of {name}: expected integers, 1 <= least <= most, got {value}"
        )
    if least > MAX_LEAST:
        raise ProgramError(
            f"manifest: limits of {name}: expected a least of {MAX_LEAST} at most, got {least}"
        )
    return least, most


def _check(manifest: Manifest) -> None:
    """Raises ProgramError for contradictions."""
    for kind, specs, roles in (
        ("input", manifest.inputs, INPUT_ROLES),
        ("output", manifest.outputs, OUTPUT_ROLES),
    ):
        names = [spec.name for spec in specs]
        if not names or len(set(names)) < len(names) or not all(map(_NAME.fullmatch, names)):
            raise ProgramError(
                f"manifest: {kind}s: expected one or more, with different names of 1 to 256 "
                f"printable characters, got {names!a}"
            )
        for spec in specs:
            _check_tensor(manifest, spec, kind, roles)
    if sum(spec.role is Role.POINTS for spec in manifest.inputs) != 1:
        raise ProgramError("manifest: inputs: expected one of the role points, got none or several")
    _check_batching(manifest)


def _check_tensor(manifest: Manifest, spec: TensorSpec, kind: str, roles: set[Role]) -> None:
    where = f"manifest: {kind} {spec.name}"
    if spec.role not in roles:
        known = ", ".join(sorted(role.value for role in roles))
        raise ProgramError(f"{where}: expected a role among {known}, got {spec.role.value}")
    if spec.dtype not in DTYPES:
        raise ProgramError(f"{where}: expected a dtype among {', '.join(DTYPES)}, got {spec.dtype}")
    if not all(isinstance(d, str) or (type(d) is int and d >= 0) for d in spec.shape):
        raise ProgramError(
            f"{where}: expected a shape of names and sizes of 0 or more, got {list(spec.shape)}"
        )
    expected = _expected_dimensions(manifest, spec)
    found = [size for size in spec.shape if isinstance(size, str)]
    free = spec.role is Role.PER_SAMPLE
    fixed = [size for size in found if not free or size == CLOUDS]
    if sorted(fixed) not in [sorted(names) for names in expected] or (
        free and len(set(found) - {CLOUDS}) != 1
    ):
        shapes = " or ".join(str(tuple(names)) for names in expected)
        extra = " and one name for the samples" if free else ""
        raise ProgramError(
            f"{where}: expected the dimensions {shapes}{extra} once each next to sizes, "
            f"got {list(spec.shape)}"
        )
    if spec.role is Role.POINTS and spec.row_shape != (3,):
        raise ProgramError(f"{where}: expected 3 coordinates for a point, got {list(spec.shape)}")
    if spec.counts and spec.counts not in _names(manifest.outputs, Role.COUNTS):
        raise ProgramError(
            f"{where}: expected counts to name an output of that role, got {spec.counts!r}"
        )
    if free and not spec.counts and manifest.is_ragged:
        raise ProgramError(f"{where}: expected counts, since a ragged batch mixes clouds, got none")


def _expected_dimensions(manifest: Manifest, spec: TensorSpec) -> Iterable[tuple[str, ...]]:
    """Named dimensions that a tensor may have."""
    if manifest.is_ragged:
        by_role: Mapping[Role, Sequence[tuple[str, ...]]] = {
            Role.OFFSETS: [(OFFSETS,), (CLOUDS,)],
            Role.PER_SAMPLE: [()],
            Role.PER_POINT: [(ALL_ROWS,)],
            Role.POINTS: [(ALL_ROWS,)],
        }
        return by_role.get(spec.role, [(CLOUDS,)])
    clouds = (CLOUDS,) if any(CLOUDS in s.shape for s in manifest.inputs) else ()
    rows = spec.role in (Role.POINTS, Role.PER_POINT)
    return [(*clouds, ROWS)] if rows else [clouds]


def _check_batching(manifest: Manifest) -> None:
    needed = {Batching.RAGGED: Role.OFFSETS, Batching.PADDED: Role.LENGTHS}.get(manifest.batching)
    if needed is not None and len(_names(manifest.inputs, needed)) != 1:
        batching = manifest.batching.value
        raise ProgramError(
            f"manifest: batching {batching}: expected one input of the role {needed.value}, got "
            f"{len(_names(manifest.inputs, needed))}"
        )
    if manifest.batching is not Batching.ALONE and manifest.limit(CLOUDS)[0] > 1:
        raise ProgramError(
            f"manifest: limits of B: expected 1 cloud or more, got {manifest.limit(CLOUDS)[0]} "
            "(torch.export assumes two clouds where it sees B+1 offsets: take the ends, (B,))"
        )
    if not manifest.has_clouds and manifest.batching is not Batching.ALONE:
        raise ProgramError(
            f"manifest: batching {manifest.batching.value}: expected a dimension B, got none"
        )


def _names(specs: Iterable[TensorSpec], role: Role) -> list[str]:
    return [spec.name for spec in specs if spec.role is role]
