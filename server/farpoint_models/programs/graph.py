"""Exported graphs, checked against a manifest."""

from collections.abc import Sequence
from typing import Any

import torch
from torch.export import ExportedProgram

from farpoint_models.programs.manifest import Manifest
from farpoint_models.programs.tensors import (
    ALL_ROWS,
    CLOUDS,
    OFFSETS,
    ROWS,
    ProgramError,
    TensorSpec,
)

# Least value of a free size in torch.export, which tries neither 0 nor 1.
_FREE = 2


def check_fits(exported: ExportedProgram, manifest: Manifest) -> None:
    """Raises ProgramError if the manifest contradicts the graph."""
    inputs, outputs = graph_inputs(exported), graph_outputs(exported)
    for kind, values, specs in (
        ("input", inputs, manifest.inputs),
        ("output", outputs, manifest.outputs),
    ):
        if len(values) != len(specs):
            names = ", ".join(spec.name for spec in specs)
            raise ProgramError(
                f"manifest: {kind}s: the graph has {len(values)} tensors, got {len(specs)}: {names}"
            )
        for value, spec in zip(values, specs, strict=True):
            _check_tensor(exported, manifest, value, spec, kind)


def graph_inputs(exported: ExportedProgram) -> list[torch.Tensor]:
    """The fake tensors of the inputs, in order."""
    names = exported.graph_signature.user_inputs
    values = _values(exported)
    tensors = [values.get(str(name)) for name in names]
    if not all(isinstance(tensor, torch.Tensor) for tensor in tensors):
        raise ProgramError("the graph takes inputs that are no tensors: make them constants")
    return [tensor for tensor in tensors if tensor is not None]


def graph_outputs(exported: ExportedProgram) -> list[torch.Tensor]:
    """The fake tensors of the outputs, in order, without None."""
    values = _values(exported)
    names = [str(name) for name in exported.graph_signature.user_outputs if name is not None]
    found = [values[name] for name in names if isinstance(values.get(name), torch.Tensor)]
    if not found:
        raise ProgramError("the graph has no outputs that are tensors")
    return found


def dtype_name(dtype: torch.dtype) -> str:
    """The name of a dtype in a manifest: float32."""
    return str(dtype).removeprefix("torch.")


def size_range(exported: ExportedProgram, size: Any, name: int | str) -> tuple[int, int | None]:
    """Minimum and maximum of a dimension in the graph; those of B for B+1."""
    more = 1 if name == OFFSETS else 0
    if not isinstance(size, torch.SymInt):
        return size - more, size - more
    bounds = exported.range_constraints.get(size.node.expr)
    if bounds is None:
        return 1, None
    least, most = int(bounds.lower), bounds.upper
    least = 1 if least <= _FREE else least - more
    return least, int(most) - more if str(most).isdigit() else None


def _values(exported: ExportedProgram) -> dict[str, Any]:
    return {node.name: node.meta.get("val") for node in exported.graph.nodes}


def _check_tensor(
    exported: ExportedProgram, manifest: Manifest, value: torch.Tensor, spec: TensorSpec, kind: str
) -> None:
    where = f"manifest: {kind} {spec.name}"
    if dtype_name(value.dtype) != spec.dtype:
        raise ProgramError(f"{where}: the graph has {dtype_name(value.dtype)}, got {spec.dtype}")
    shape: Sequence[Any] = value.shape
    if len(shape) != len(spec.shape):
        raise ProgramError(f"{where}: the graph has {len(shape)} dimensions, got {spec.shape}")
    for size, wanted in zip(shape, spec.shape, strict=True):
        least, most = size_range(exported, size, wanted)
        low, high = manifest.range_of(wanted)
        too_many = most is not None and (high is None or high > most)
        # The number of samples is the program's own; free sizes come from the inputs.
        is_own = isinstance(wanted, str) and wanted not in (CLOUDS, ROWS, ALL_ROWS)
        if kind == "output" and (isinstance(size, torch.SymInt) or is_own):
            continue
        if low < least or too_many:
            graph = str(least) if least == most else f"{least} to {most or 'any'}"
            got = str(low) if low == high else f"{low} to {high or 'any'}"
            raise ProgramError(f"{where}: the graph takes {graph} for {wanted}, got {got}")
