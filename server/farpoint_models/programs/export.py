"""A served program from an nn.Module: exported, checked, saved, and compared with the module."""

import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.export import Dim, ExportedProgram
from torch.utils import _pytree as pytree

from farpoint_models.programs.archive import check_ops
from farpoint_models.programs.graph import graph_inputs, graph_outputs, size_range
from farpoint_models.programs.manifest import (
    ALL_ROWS,
    CLOUDS,
    FILE_NAME,
    OFFSETS,
    ROWS,
    Manifest,
    ProgramError,
    Role,
    TensorSpec,
)
from farpoint_models.programs.program import Program, load_program

TOLERANCE = 1e-5
# Clouds, and points above the manifest's minimum: of the traced inputs, sizes unlike constants of a
# module, such as 3; and of the samples on which module and program are compared.
TRACED = (5, 61)
SAMPLES = ((2, 33), (1, 97))
_FIXED = re.compile(r"L\['(\w+)'\]\.size\(\)\[(\d+)\] as dynamic .* constant \((\d+)\)")


def export_program(module: nn.Module, manifest: Manifest, path: Path) -> Program:
    """Writes a .pt2 archive of a module with its manifest, and reads it back.

    Args:
        module: Takes the manifest's inputs in their order, and returns its outputs: one tensor, or
            any nest of them. It is put into evaluation mode.
        manifest: Of its tensors; the limits of B, N and P are narrowed to those of the graph.
        path: Of the archive, NAME.pt2.

    Returns:
        The program as the server will load it.

    Raises:
        ProgramError: the module cannot be exported, calls an unknown op, or differs from the
            program.
    """
    if path.suffix != ".pt2":
        raise ProgramError(f"path: expected NAME.pt2, got {path.name}")
    module = module.eval()
    exported = _export(module, manifest)
    targets = [_name(node.target) for node in exported.graph.nodes if node.op == "call_function"]
    check_ops(targets)
    manifest = replace(manifest, limits=_limits(exported, manifest))
    exported.example_inputs = None  # a pickle otherwise
    torch.export.save(exported, path, extra_files={FILE_NAME: manifest.to_json()})
    program = load_program(path)
    compare(module, program)
    return program


def compare(module: nn.Module, program: Program) -> None:
    """Compares a module and its program over a few samples.

    Raises:
        ProgramError: they differ by more than TOLERANCE of the larger of 1 and the module's number.
    """
    run = program.on(torch.device("cpu"))
    for clouds, more in SAMPLES:
        inputs = sample_inputs(program.manifest, clouds, more)
        with torch.no_grad():
            expected = [t for t in pytree.tree_leaves(module(*inputs)) if isinstance(t, Tensor)]
            found = run(inputs)
        for spec, want, got in zip(program.manifest.outputs, expected, found, strict=True):
            apart = (got.double() - want.double()).abs() / want.double().abs().clamp(min=1)
            worst = float(apart.max()) if apart.numel() else 0.0
            if got.shape != want.shape or not worst <= TOLERANCE:
                raise ProgramError(
                    f"output {spec.name}: the program differs from the module by {worst:.2g} for "
                    f"{clouds} clouds, expected {TOLERANCE} at most"
                )


def sample_inputs(manifest: Manifest, clouds: int, more: int) -> list[Tensor]:
    """Random inputs that the manifest allows, in order; clouds of different sizes if allowed.

    Args:
        manifest: Of the program.
        clouds: How many.
        more: Points of the largest above the least that it may have.
    """
    clouds = manifest.within(CLOUDS, clouds) if manifest.has_clouds else 1
    least, _ = manifest.limit(ROWS)
    points = manifest.within(ROWS, least + more)
    lengths = torch.full((clouds,), points)
    if Role.LENGTHS in {spec.role for spec in manifest.inputs} or manifest.is_ragged:
        lengths -= torch.arange(clouds) * min(7, (points - least) // max(1, clouds))
    sizes = {CLOUDS: clouds, ROWS: points, ALL_ROWS: int(lengths.sum()), OFFSETS: clouds + 1}
    generator = torch.Generator().manual_seed(points)
    return [_sample(spec, sizes, lengths, generator) for spec in manifest.inputs]


def _sample(
    spec: TensorSpec, sizes: Mapping[str, int], lengths: Tensor, generator: torch.Generator
) -> Tensor:
    dtype = getattr(torch, spec.dtype)
    ends = lengths.cumsum(0)
    if spec.role is Role.LENGTHS:
        return lengths.to(dtype)
    if spec.role is Role.OFFSETS:
        has_first = spec.shape == (OFFSETS,)
        return (torch.cat([ends.new_zeros(1), ends]) if has_first else ends).to(dtype)
    shape = [sizes[size] if isinstance(size, str) else size for size in spec.shape]
    if not dtype.is_floating_point:
        return torch.zeros(shape, dtype=dtype)
    return torch.rand(shape, generator=generator, dtype=torch.float64).to(dtype)


def _export(module: nn.Module, manifest: Manifest) -> ExportedProgram:
    inputs = tuple(sample_inputs(manifest, *TRACED))
    dynamic = tuple(
        {axis: Dim.DYNAMIC for axis, size in enumerate(spec.shape) if _varies(manifest, size)}
        or None
        for spec in manifest.inputs
    )
    try:
        with torch.no_grad():
            exported = torch.export.export(module, inputs, dynamic_shapes=dynamic)
    except Exception as error:
        fixed = _FIXED.search(str(error))
        line = next(iter(str(error).strip().splitlines()), type(error).__name__)
        if fixed:
            line = f"dimension {fixed[2]} of {fixed[1]} varies, and its code takes {fixed[3]} alone"
        raise ProgramError(f"the module cannot be exported: {line}") from error
    for kind, values, specs in (
        ("inputs", graph_inputs(exported), manifest.inputs),
        ("outputs", graph_outputs(exported), manifest.outputs),
    ):
        if len(values) != len(specs):
            raise ProgramError(f"the module has {len(values)} {kind}, the manifest {len(specs)}")
    return exported


def _varies(manifest: Manifest, size: int | str) -> bool:
    least, most = manifest.range_of(size)
    return least != most


def _limits(exported: ExportedProgram, manifest: Manifest) -> dict[str, tuple[int, int | None]]:
    """Limits of the manifest, narrowed to those of the graph."""
    limits = dict(manifest.limits)
    for value, spec in zip(graph_inputs(exported), manifest.inputs, strict=True):
        for size, name in zip(value.shape, spec.shape, strict=True):
            if not isinstance(name, str):
                continue
            least, most = size_range(exported, size, name)
            name = CLOUDS if name == OFFSETS else name
            low, high = limits.get(name, (1, None))
            ends = [end for end in (most, high) if end is not None]
            limits[name] = max(least, low), min(ends) if ends else None
    return limits


def _name(target: Any) -> str:
    """The name of a function that a graph calls, for `check_ops`."""
    if isinstance(target, torch._ops.OpOverload | torch._ops.HigherOrderOperator):
        return str(target) if "." in str(target) else f"higher_order.{target}"
    return f"{target.__module__}.{target.__name__}"
