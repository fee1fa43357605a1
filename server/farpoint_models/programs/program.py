"""A program on one device: an exported graph, called by flat tensors."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain, islice
from pathlib import Path
from typing import Any, TypeAlias

import torch
from torch import Tensor
from torch.export import ExportedProgram
from torch.fx import GraphModule

from farpoint_models.programs.archive import open_archive
from farpoint_models.programs.checks import Flat as Flat
from farpoint_models.programs.checks import apart, check_alike, run_trial, tolerance_of
from farpoint_models.programs.effects import keep_own, mixing, waits
from farpoint_models.programs.flat import flat, scripted
from farpoint_models.programs.fold import fold
from farpoint_models.programs.graph import check_fits, graph_outputs
from farpoint_models.programs.interpreters import Double, Peak
from farpoint_models.programs.manifest import Manifest
from farpoint_models.programs.tensors import Batching, ProgramError, first_line
from farpoint_models.programs.trials import larger_trials, trials

# Times the tolerance where a program does not run in float64.
MARGIN = 10

Make: TypeAlias = Callable[[GraphModule], Callable[..., Any]]


@dataclass(frozen=True)
class Program:
    """A program with a valid manifest; `on` makes it run on a device."""

    manifest: Manifest
    exported: ExportedProgram

    @property
    def parameters(self) -> int:
        """Number of parameters."""
        return sum(parameter.numel() for parameter in self.exported.parameters())

    @property
    def tolerance(self) -> float:
        """How far its answers may be from those of its module, relative to 1 or the largest."""
        values = (node.meta.get("val") for node in self.exported.graph.nodes)
        return tolerance_of(value.dtype for value in values if isinstance(value, Tensor))

    @property
    def is_steady(self) -> bool:
        """Whether the steps and sizes of a call depend on the sizes of its inputs alone."""
        return not waits(self.exported)

    @property
    def is_capturable(self) -> bool:
        """Whether a CUDA graph can replay a call: the host waits for no result, and nothing is
        random or kept for the next call."""
        return self.is_steady and mixing(self.exported) is None

    def on(self, device: torch.device) -> Flat:
        """The program on a device.

        Raises:
            ProgramError: it fails on a trial.
        """
        moved = self._moved(device)
        exact, fast = as_flat(moved), as_flat(moved, faster)
        for clouds in trials(self.manifest):
            wanted = run_trial(exact, self.manifest, clouds, device)
            try:
                found = run_trial(fast, self.manifest, clouds, device)
            except ProgramError:
                return exact
            pairs = zip(found, wanted, strict=True)
            if any(apart(got[k], want[k]) > self.tolerance for got, want in pairs for k in want):
                return exact
        return fast

    def check(self, device: torch.device) -> None:
        """Tries the program on small clouds, alone and with others.

        Raises:
            ProgramError: it fails, its outputs are not those of the manifest, or the answer to a
                cloud depends on the others of its call.
        """
        moved = self._moved(device)
        run: Flat = as_flat(moved)
        for clouds in trials(self.manifest):
            run_trial(run, self.manifest, clouds, device)
        if self.manifest.batching is Batching.ALONE:
            return
        # In float64, where rounding does not choose another neighbor, if the graph has no types.
        wide, dtypes = as_flat(moved, in_double), [each.dtype for each in graph_outputs(moved)]

        def double(inputs: Sequence[Tensor]) -> list[Tensor]:
            return [out.to(dtype) for out, dtype in zip(wide(inputs), dtypes, strict=True)]

        try:
            run_trial(double, self.manifest, next(trials(self.manifest)), device)
        except ProgramError:
            tolerance = MARGIN * self.tolerance
        else:
            run, tolerance = double, self.tolerance
        for clouds in trials(self.manifest):
            check_alike(run, self.manifest, clouds, device, tolerance)

    def peaks(self, device: torch.device) -> tuple[tuple[int, int], ...]:
        """Points of a cloud, and the most bytes that its tensors take, of growing clouds.

        Raises:
            ProgramError: it fails on one, or its outputs are not those of the manifest.
        """
        watched: list[Peak] = []
        run = as_flat(self._moved(device), lambda module: _watched(module, watched))
        found = []
        for clouds in chain(islice(trials(self.manifest), 1), larger_trials(self.manifest)):
            watched[0].bytes = 0
            run_trial(run, self.manifest, clouds, device)
            found.append((clouds[0].length, watched[0].bytes // len(clouds)))
        return tuple(found)

    def _moved(self, device: torch.device) -> ExportedProgram:
        if device.type == "cpu":
            return self.exported
        from torch.export.passes import move_to_device_pass

        return move_to_device_pass(self.exported, device)


def load_program(path: Path) -> Program:
    """A program of a .pt2 archive, without unpickling anything.

    Raises:
        ProgramError: it is none, its manifest does not fit it, or calls would change each other.
        OSError: the file cannot be read.
    """
    with open_archive(path) as archive:
        manifest = archive.manifest
        copy = archive.without_example_inputs()
    try:
        exported = torch.export.load(copy)
    except Exception as error:
        line = first_line(error)
        raise ProgramError(f"torch {torch.__version__} cannot read it: {line}") from error
    check_fits(exported, manifest)
    reason = mixing(exported)
    if reason is not None and manifest.batching is not Batching.ALONE:
        raise ProgramError(
            f"{reason}: expected answers that depend on nothing but their cloud; with batching "
            "alone, each request runs by itself on the buffers as they were exported"
        )
    return Program(manifest, exported)


def as_flat(exported: ExportedProgram, make: Make = flat) -> Flat:
    """An exported program, called by its tensors in the order of its graph.

    Args:
        exported: On its device.
        make: What runs its graph, given flat tensors, and returns them.
    """
    module = exported.module()
    keep_own(module)
    call = make(module)

    def run(inputs: Sequence[Tensor]) -> list[Tensor]:
        return [output for output in call(*inputs) if isinstance(output, Tensor)]

    return run


def faster(module: GraphModule) -> Callable[..., Any]:
    """A graph with fewer and faster ops, of the same answers up to rounding."""
    fold(module)
    is_on_cpu = next(module.parameters(), torch.empty(0)).device.type == "cpu"
    return scripted(module) if is_on_cpu else flat(module)


def in_double(module: GraphModule) -> Callable[..., Any]:
    """A graph in float64."""
    return partial(Double(module).run, enable_io_processing=False)


def _watched(module: GraphModule, watched: list[Peak]) -> Callable[..., Any]:
    watched.append(Peak(module))
    return partial(watched[0].run, enable_io_processing=False)
