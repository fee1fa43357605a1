"""A program on one device: an exported graph or an AOTInductor package, called by flat tensors."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

import torch
from torch import Tensor
from torch.export import ExportedProgram
from torch.utils import _pytree as pytree

from farpoint_models.programs.archive import open_archive
from farpoint_models.programs.graph import check_fits, fold
from farpoint_models.programs.manifest import Manifest, ProgramError

Flat: TypeAlias = Callable[[Sequence[Tensor]], list[Tensor]]
# Calls of a package that may run at once: a server has two lanes.
RUNNERS = 2


@dataclass(frozen=True)
class Program:
    """A program that was read and whose manifest fits it; `on` makes it run somewhere."""

    path: Path
    manifest: Manifest
    exported: ExportedProgram | None
    """None for an AOTInductor package, which is read by each device."""

    @property
    def parameters(self) -> int:
        """Trained numbers; 0 where a package does not say."""
        return 0 if self.exported is None else count_parameters(self.exported)

    def on(self, device: torch.device) -> Flat:
        """The program on a device: the manifest's inputs in, its outputs out, in their order.

        Raises:
            ProgramError: it is for another device.
        """
        if self.exported is None:
            return _load_package(self.path, device)
        moved = self.exported
        if device.type != "cpu":
            from torch.export.passes import move_to_device_pass

            moved = move_to_device_pass(moved, device)
        return as_flat(moved)


def load_program(path: Path) -> Program:
    """A program of a .pt2 archive, without unpickling anything.

    Raises:
        ProgramError: it is none, or its manifest does not fit it.
        OSError: the file cannot be read.
    """
    with open_archive(path) as archive:
        manifest = archive.manifest
        if archive.is_compiled:
            return Program(path, manifest, None)
        copy = archive.without_example_inputs()
    try:
        exported = torch.export.load(copy)
    except Exception as error:
        raise ProgramError(f"torch {torch.__version__} cannot read it: {_line(error)}") from error
    check_fits(exported, manifest)
    return Program(path, manifest, exported)


def count_parameters(exported: ExportedProgram) -> int:
    """Trained numbers."""
    return sum(parameter.numel() for parameter in exported.parameters())


def as_flat(exported: ExportedProgram) -> Flat:
    """An exported program, called by its tensors in the order of its graph."""
    return _flat(fold(exported.module()), exported.call_spec.in_spec)


def _flat(function: Callable[..., Any], in_spec: Any) -> Flat:
    def run(inputs: Sequence[Tensor]) -> list[Tensor]:
        positional, named = pytree.tree_unflatten(inputs, in_spec)
        outputs = pytree.tree_leaves(function(*positional, **named))
        return [output for output in outputs if isinstance(output, Tensor)]

    return run


def _load_package(path: Path, device: torch.device) -> Flat:
    from torch.export.pt2_archive._package import AOTICompiledModel

    # Not torch's aoti_load_package, which also reads, and unpickles, what else is in the package.
    loader: Any = torch._C._aoti.AOTIModelPackageLoader
    try:
        built_for = loader.load_metadata_from_package(str(path), "model")["AOTI_DEVICE_KEY"]
        if built_for != device.type:
            raise ProgramError(f"the package was compiled for {built_for}, got the device {device}")
        index = -1 if device.index is None else device.index
        package = loader(str(path), "model", False, RUNNERS, index)
    except RuntimeError as error:
        raise ProgramError(f"the package cannot be loaded: {_line(error)}") from error
    in_spec = pytree.treespec_loads(package.get_call_spec()[0])
    return _flat(AOTICompiledModel(package), in_spec)


def _line(error: BaseException) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0]
