"""A served program from an nn.Module: exported, checked, compared with the module, and saved."""

import inspect
import io
import logging
import os
import re
import tempfile
import traceback
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, redirect_stderr
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.export import Dim, ExportedProgram
from torch.utils import _pytree as pytree

import farpoint_ops
from farpoint_models.programs.archive import check_ops
from farpoint_models.programs.calls import Outputs, arguments
from farpoint_models.programs.checks import Flat, apart, run_trial
from farpoint_models.programs.graph import graph_inputs, size_range
from farpoint_models.programs.manifest import FILE_NAME, Manifest
from farpoint_models.programs.program import Program, as_flat, load_program
from farpoint_models.programs.tensors import CLOUDS, OFFSETS, ProgramError, first_line
from farpoint_models.programs.trials import larger_trials, traced, trials

CPU = torch.device("cpu")
_FIXED = re.compile(r"L\['(\w+)'\]\.size\(\)\[(\d+)\] as dynamic .* constant \((\d+)\)")


def export_program(module: nn.Module, manifest: Manifest, path: Path) -> Program:
    """Writes a .pt2 archive of a module with its manifest, and reads it back.

    Args:
        module: Takes the manifest's inputs in their order, and returns its outputs: one tensor, or
            any nest of them. It is put into evaluation mode.
        manifest: Of its tensors; the limits of B, N and P are narrowed to those of the graph.
        path: Of the archive, NAME.pt2; replaced when all checks have passed.

    Returns:
        The program as the server will load it.

    Raises:
        ProgramError: the module cannot be exported, calls an unknown op, lets clouds or calls
            change each other's answers, fails for a size that the manifest allows, or differs from
            the program.
    """
    if path.suffix != ".pt2":
        raise ProgramError(f"path: expected NAME.pt2, got {path.name}")
    _check_forward(module, manifest)
    module = module.eval()
    exported = _export(module, manifest)
    targets = [_name(node.target) for node in exported.graph.nodes if node.op == "call_function"]
    check_ops(targets)
    manifest = replace(manifest, limits=_limits(exported, manifest))
    exported.example_inputs = None  # a pickle otherwise
    with tempfile.TemporaryDirectory(dir=path.parent, prefix=".farpoint-") as folder:
        written = Path(folder) / path.name
        torch.export.save(exported, written, extra_files={FILE_NAME: manifest.to_json()})
        program = load_program(written)
        compare(module, program)
        program.check(CPU)
        os.replace(written, path)
    return program


def compare(module: nn.Module, program: Program) -> None:
    """Compares a module and its program on every trial, and the module with itself afterwards.

    Raises:
        ProgramError: they differ by more than the tolerance of the program's types, or the module
            answers otherwise after other calls.
    """
    run, manifest, eager = as_flat(program.exported), program.manifest, _eager(module)
    first: list[Outputs] = []
    for clouds in chain(trials(manifest), larger_trials(manifest)):
        with torch.random.fork_rng(devices=()):
            torch.manual_seed(0)
            wanted = run_trial(eager, manifest, clouds, CPU)
            torch.manual_seed(0)
            found = run_trial(run, manifest, clouds, CPU)
        first = first or wanted
        _check_same(found, wanted, program, "the program differs from the module")
    with torch.random.fork_rng(devices=()):
        torch.manual_seed(0)
        again = run_trial(eager, manifest, next(trials(manifest)), CPU)
    _check_same(again, first, program, "after other calls forward differs from its first answer")


def _check_same(
    found: Sequence[Outputs], wanted: Sequence[Outputs], program: Program, what: str
) -> None:
    for got, want in zip(found, wanted, strict=True):
        for name, array in want.items():
            distance = apart(got[name], array)
            if distance > program.tolerance:
                raise ProgramError(
                    f"output {name}: {what} by {distance:.2g}, expected {program.tolerance} at most"
                )


def _eager(module: nn.Module) -> Flat:
    """The module, whose forward may change what it is given and the buffers, which stay."""
    kept = {name: buffer.clone() for name, buffer in module.named_buffers()}

    def run(inputs: Sequence[Tensor]) -> list[Tensor]:
        try:
            outputs = pytree.tree_leaves(module(*(tensor.clone() for tensor in inputs)))
        finally:
            for name, buffer in module.named_buffers():
                if name in kept:
                    buffer.copy_(kept[name])
        return [output.clone() for output in outputs if isinstance(output, Tensor)]

    return run


def _check_forward(module: nn.Module, manifest: Manifest) -> None:
    """Raises ProgramError for a module that does not take the manifest's tensors in their order."""
    names = ", ".join(spec.name for spec in manifest.inputs)
    if hasattr(module, "_orig_mod"):
        raise ProgramError(
            "forward is wrapped by torch.compile: export the module itself, compiled._orig_mod"
        )
    if isinstance(module, torch.jit.ScriptModule):
        raise ProgramError("forward is TorchScript: export the nn.Module that it was made of")
    try:
        inspect.signature(module.forward).bind(*manifest.inputs)
    except TypeError as error:
        raise ProgramError(
            f"forward: expected to take {names} as positional arguments, got {error}: wrap the "
            f"module in one whose forward(self, {names}) makes what it takes of these tensors"
        ) from None


def _export(module: nn.Module, manifest: Manifest) -> ExportedProgram:
    inputs = tuple(torch.from_numpy(a.copy()) for a in arguments(manifest, traced(manifest)))
    dynamic = tuple(
        {axis: Dim.DYNAMIC for axis, size in enumerate(spec.shape) if _varies(manifest, size)}
        or None
        for spec in manifest.inputs
    )
    try:
        with torch.no_grad(), _quiet():
            exported = torch.export.export(module, inputs, dynamic_shapes=dynamic)
    except Exception as error:
        fixed = _FIXED.search(str(error))
        line = first_line(error)
        if fixed:
            line = f"dimension {fixed[2]} of {fixed[1]} varies, and its code takes {fixed[3]} alone"
        raise ProgramError(f"the module cannot be exported: {line}{_place(error)}") from error
    return exported


def _place(error: Exception) -> str:
    """The line of the module's code that raised an error, in brackets."""
    libraries = [
        str(Path(code).parent) for code in (torch.__file__, farpoint_ops.__file__, __file__)
    ]
    frames = traceback.extract_tb(error.__traceback__)
    own = [frame for frame in frames if not frame.filename.startswith(tuple(libraries))]
    return f" ({own[-1].filename}:{own[-1].lineno}: {own[-1].line})" if own else ""


@contextmanager
def _quiet() -> Iterator[None]:
    """Without what torch prints about a module that it cannot trace; the error says it."""
    level = logging.root.manager.disable
    logging.disable(logging.CRITICAL)
    try:
        with redirect_stderr(io.StringIO()):
            yield
    finally:
        logging.disable(level)


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
