"""What a manifest must hold so that requests can be batched by it."""

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from farpoint_models.programs.tensors import (
    ALL_ROWS,
    CLOUDS,
    DTYPES,
    INPUT_ROLES,
    OFFSETS,
    OUTPUT_ROLES,
    ROWS,
    Batching,
    ProgramError,
    Role,
    TensorSpec,
)

if TYPE_CHECKING:
    from farpoint_models.programs.manifest import Manifest

# Rows are numbered by int32; torch.export writes the largest int64 for no limit.
MAX_LEAST, MAX_MOST = (1 << 31) - 1, (1 << 63) - 1
_NAME = re.compile(r"[^\x00-\x1f\x7f\ud800-\udfff]{1,256}")


def check_manifest(manifest: "Manifest") -> None:
    """Raises ProgramError for contradictions."""
    for name, (least, most) in manifest.limits.items():
        ends = [least, least if most is None else most]
        if not all(type(end) is int for end in ends) or not (
            1 <= least <= min(ends[1], MAX_LEAST) and ends[1] <= MAX_MOST
        ):
            raise ProgramError(
                f"manifest: limits of {name}: expected integers, 1 <= least <= most and least <= "
                f"{MAX_LEAST}, got {least} and {most}"
            )
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
    for example in manifest.examples:
        _check_example(manifest, example)


def _check_tensor(manifest: "Manifest", spec: TensorSpec, kind: str, roles: set[Role]) -> None:
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
    _check_dimensions(manifest, spec, where, is_input=kind == "input")
    width = spec.row_shape[0] if len(spec.row_shape) == 1 else 0
    if spec.role is Role.POINTS and not (isinstance(width, int) and width >= 3):
        raise ProgramError(
            f"{where}: expected 3 coordinates for a point, or more numbers after them, got "
            f"{list(spec.shape)}"
        )
    if spec.counts and spec.counts not in _names(manifest.outputs, Role.COUNTS):
        raise ProgramError(
            f"{where}: expected counts to name an output of that role, got {spec.counts!r}"
        )
    if spec.role is Role.PER_SAMPLE and not spec.counts and manifest.is_ragged:
        raise ProgramError(f"{where}: expected counts, since a ragged batch mixes clouds, got none")


def _check_dimensions(
    manifest: "Manifest", spec: TensorSpec, where: str, *, is_input: bool
) -> None:
    """Raises ProgramError for named dimensions that a role does not have."""
    found = [size for size in spec.shape if isinstance(size, str)]
    expected, extra = _expected_dimensions(manifest, spec), ""
    if spec.role is Role.PER_SAMPLE:
        own, extra = set(found) - {CLOUDS}, " and one name for the samples"
        is_right = len(own) == 1
    else:
        own = set(spec.own) if spec.role is Role.PER_CLOUD and is_input else set()
        is_right = len(found) == len(set(found))
    fixed = [size for size in found if size not in own]
    if not is_right or sorted(fixed) not in [sorted(names) for names in expected]:
        shapes = " or ".join(str(tuple(names)) for names in expected)
        raise ProgramError(
            f"{where}: expected the dimensions {shapes}{extra} once each next to sizes, "
            f"got {list(spec.shape)}"
        )


def _expected_dimensions(manifest: "Manifest", spec: TensorSpec) -> Iterable[tuple[str, ...]]:
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


def _check_batching(manifest: "Manifest") -> None:
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


def _check_example(manifest: "Manifest", example: Mapping[str, object]) -> None:
    specs = {spec.name: spec for spec in (manifest.points, *manifest.extra_inputs)}
    for name, values in example.items():
        if name not in specs:
            raise ProgramError(f"manifest: examples: expected {', '.join(specs)}, got {name!a}")
        spec = specs[name]
        try:
            found = np.asarray(values, spec.dtype).shape
        except (ValueError, TypeError, OverflowError):
            found = None
        rows = () if spec.row_axis is None else ("rows",)
        wanted = (*rows, *spec.row_shape)
        is_right = found is not None and len(found) == len(wanted) and 0 not in found
        if not is_right or any(
            isinstance(size, int) and size != got
            for size, got in zip(wanted, found or (), strict=True)
        ):
            raise ProgramError(
                f"manifest: examples: {name}: expected the shape {list(wanted)}, got "
                f"{'other values' if found is None else list(found)}"
            )


def _names(specs: Iterable[TensorSpec], role: Role) -> list[str]:
    return [spec.name for spec in specs if spec.role is role]
