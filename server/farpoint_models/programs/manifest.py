"""The manifest of a served program: the roles of its tensors, and the batching of requests."""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from farpoint_models.programs.rules import check_manifest
from farpoint_models.programs.tensors import (
    CLOUDS,
    OFFSETS,
    Batching,
    ProgramError,
    Role,
    TensorSpec,
)

FORMAT = "farpoint.program/1"
FILE_NAME = "farpoint.json"
"""In the archive's extra files; next to `NAME.pt2` it is `NAME.pt2.json`."""
# Of a cloud that is kept as an example.
EXAMPLE_ROWS = 256


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
    examples: tuple[Mapping[str, Any], ...] = ()
    """Clouds that the program is tried on, as arrays or lists by input, rows first; some inputs of
    them are enough. A few rows of each are kept, as lists."""

    def __post_init__(self) -> None:
        rows = {spec.name for spec in self.inputs if spec.row_axis is not None}
        try:
            arrays = [{k: np.asarray(v) for k, v in cloud.items()} for cloud in self.examples]
            kept = [
                {k: (a[:EXAMPLE_ROWS] if k in rows else a).tolist() for k, a in cloud.items()}
                for cloud in arrays
            ]
        except (ValueError, IndexError) as error:
            raise ProgramError(f"manifest: examples: {error}") from None
        object.__setattr__(self, "examples", tuple(kept))
        check_manifest(self)

    @cached_property
    def points(self) -> TensorSpec:
        """The input with the clouds."""
        return next(spec for spec in self.inputs if spec.role is Role.POINTS)

    @cached_property
    def extra_inputs(self) -> list[TensorSpec]:
        """What callers give besides the clouds; sizes are filled in."""
        given = (Role.POINTS, Role.LENGTHS, Role.OFFSETS)
        return [spec for spec in self.inputs if spec.role not in given]

    @cached_property
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

    @cached_property
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
            batching=Batching(content["batching"]),
            inputs=tuple(map(_spec, content["inputs"])),
            outputs=tuple(map(_spec, content["outputs"])),
            limits={name: tuple(ends) for name, ends in content.get("limits", {}).items()},
            shift_float64=bool(content.get("shift_float64", False)),
            examples=tuple(map(dict, content.get("examples", ()))),
        )
    except KeyError as error:
        raise ProgramError(f"manifest: expected the key {error}, got none") from None
    except (TypeError, ValueError, AttributeError) as error:
        raise ProgramError(f"manifest: expected what docs/models.md has, {error}") from None


def _spec(item: Mapping[str, Any]) -> TensorSpec:
    return TensorSpec(**{**item, "role": Role(item["role"]), "shape": tuple(item["shape"])})
