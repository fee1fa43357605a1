"""A program on one device: an exported graph, called by flat tensors."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

import torch
from torch import Tensor
from torch.export import ExportedProgram
from torch.utils import _pytree as pytree

from farpoint_models.programs.archive import open_archive
from farpoint_models.programs.graph import check_fits, fold
from farpoint_models.programs.manifest import Manifest, ProgramError
from farpoint_models.programs.pointwise import use_products

Flat: TypeAlias = Callable[[Sequence[Tensor]], list[Tensor]]


@dataclass(frozen=True)
class Program:
    """A program with a valid manifest; `on` makes it run on a device."""

    manifest: Manifest
    exported: ExportedProgram

    @property
    def parameters(self) -> int:
        """Number of parameters."""
        return sum(parameter.numel() for parameter in self.exported.parameters())

    def on(self, device: torch.device) -> Flat:
        """The program on a device: takes and returns tensors in the order of the manifest."""
        moved = self.exported
        if device.type != "cpu":
            from torch.export.passes import move_to_device_pass

            moved = move_to_device_pass(moved, device)
        return as_flat(moved, device)


def load_program(path: Path) -> Program:
    """A program of a .pt2 archive, without unpickling anything.

    Raises:
        ProgramError: it is none, or its manifest does not fit it.
        OSError: the file cannot be read.
    """
    with open_archive(path) as archive:
        manifest = archive.manifest
        copy = archive.without_example_inputs()
    try:
        exported = torch.export.load(copy)
    except Exception as error:
        line = (str(error).strip().splitlines() or [type(error).__name__])[0]
        raise ProgramError(f"torch {torch.__version__} cannot read it: {line}") from error
    check_fits(exported, manifest)
    return Program(manifest, exported)


def as_flat(exported: ExportedProgram, device: torch.device) -> Flat:
    """An exported program, called by its tensors in the order of its graph."""
    module, in_spec = fold(exported.module()), exported.call_spec.in_spec
    if device.type == "cpu":
        use_products(module)

    def run(inputs: Sequence[Tensor]) -> list[Tensor]:
        positional, named = pytree.tree_unflatten(inputs, in_spec)
        outputs = pytree.tree_leaves(module(*positional, **named))
        return [output for output in outputs if isinstance(output, Tensor)]

    return run
