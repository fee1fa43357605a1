"""Requests to an exported program: batching, cost and execution."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import torch

from farpoint_models.programs import Batching, Manifest
from farpoint_models.programs.program import Flat
from farpoint_server.engine.transfer.pipeline import Pipeline
from farpoint_server.engine.types import ModelInput, ProgramOutput, concatenated
from farpoint_server.errors import InvalidRequestError, shortened
from farpoint_server.memory.oom import is_out_of_memory, is_sticky
from farpoint_server.models.batching import (
    Array,
    Cloud,
    arguments,
    call_rows,
    calls,
    merged,
    results,
    split,
)

Outputs: TypeAlias = Mapping[str, ProgramOutput]
# Bytes that a row is predicted to take at least; a GPU measures it at the first run.
ROW_BYTES = 4096
# Too much for the event loop, where a program, which may do anything, must not run.
PROGRAM_NS = 1_000_000


@dataclass(frozen=True, eq=False)
class LoadedProgram:
    """A loaded program, on each device; usable as long as it is referenced."""

    name: str
    manifest: Manifest
    runs: Mapping[torch.device, Flat]
    parameters: int
    row_ns: float = 0.0
    """Nanoseconds for each row of a call, as the first one on a device took."""
    row_bytes: int = ROW_BYTES
    """Predicted bytes for each row."""


@dataclass(frozen=True)
class ProgramWork:
    """One request to a program."""

    program: LoadedProgram
    request: ModelInput

    @property
    def cost_key(self) -> str:
        """The program's name: each program has its own time predictions."""
        return f"infer {self.program.name}"

    @property
    def batch_key(self) -> LoadedProgram | None:
        """The program, if its manifest lets requests share a call."""
        return None if self.program.manifest.batching is Batching.ALONE else self.program

    @property
    def point_count(self) -> int:
        return int(self.request.lengths.sum())

    @property
    def cost_ns(self) -> int:
        return PROGRAM_NS + int(self.program.row_ns * self.point_count)

    @property
    def gpu_cost_ns(self) -> int:
        """The same: `row_ns` is measured on the device."""
        return self.cost_ns

    @property
    def least_bytes(self) -> int:
        """Bytes of the smallest part that a request can be cut to."""
        lengths, manifest = self.request.lengths, self.program.manifest
        is_cut = _is_cut(self.program, self.request)
        rows = int(lengths.max()) if is_cut else call_rows(lengths, manifest)
        return self.program.row_bytes * rows

    @staticmethod
    def batch(requests: "Sequence[ProgramWork]") -> "ProgramBatch":
        return ProgramBatch(requests[0].program, [work.request for work in requests])


class ProgramBatch:
    """Requests to one program, except those cancelled before it starts."""

    def __init__(
        self,
        program: LoadedProgram,
        requests: Sequence[ModelInput],
        cancelled: npt.NDArray[np.bool_] | None = None,
    ) -> None:
        self.program = program
        self.requests = requests
        # Shared with all slices.
        self.cancelled = np.zeros(len(requests), np.bool_) if cancelled is None else cancelled

    @property
    def point_count(self) -> int:
        return sum(int(request.lengths.sum()) for request in self.requests)

    @property
    def predicted_bytes(self) -> int:
        """Bytes of its largest call."""
        lengths = np.concatenate([request.lengths for request in self.requests])
        return self.program.row_bytes * call_rows(lengths, self.program.manifest)

    def __len__(self) -> int:
        return len(self.requests)

    def __getitem__(self, requests: slice) -> "ProgramBatch":
        return ProgramBatch(self.program, self.requests[requests], self.cancelled[requests])

    def cancel(self, index: int) -> None:
        """Cancels a request unless the batch has started."""
        self.cancelled[index] = True

    def halve(self) -> "tuple[ProgramBatch, ProgramBatch] | None":
        """Two parts of the only request, of about as many clouds; None where it cannot be cut."""
        (request,) = self.requests
        if not _is_cut(self.program, request):
            return None
        left, right = (
            ProgramBatch(self.program, [half], self.cancelled) for half in request.halves()
        )
        return left, right

    def join(self, first: Outputs, second: Outputs) -> Outputs:
        return {name: concatenated([part, second[name]]) for name, part in first.items()}

    def run(self, device: torch.device, pipeline: Pipeline | None) -> list[Outputs]:
        """The outputs of each request, by the device's copy of the program.

        Raises:
            InvalidRequestError: the program refuses one of them.
        """
        wanted = [i for i, is_cancelled in enumerate(self.cancelled) if not is_cancelled]
        clouds = [split(self.requests[i]) for i in wanted]
        flat = [cloud for request in clouds for cloud in request]
        found = _run(self.program, device, flat, pipeline) if flat else []
        answers: list[Outputs] = [{}] * len(self.requests)
        end = 0
        for i, request in zip(wanted, clouds, strict=True):
            begin, end = end, end + len(request)
            answers[i] = merged(self.program.manifest, found[begin:end])
        return answers


def _is_cut(program: LoadedProgram, request: ModelInput) -> bool:
    """Whether the clouds of a request may run separately."""
    manifest = program.manifest
    is_whole = manifest.batching is Batching.ALONE and manifest.has_clouds
    return len(request.lengths) > 1 and not is_whole


def _run(
    program: LoadedProgram,
    device: torch.device,
    clouds: Sequence[Cloud],
    pipeline: Pipeline | None,
) -> list[dict[str, Array]]:
    """The outputs of each cloud, in as few calls as the manifest allows."""
    found: list[dict[str, Array]] = [{} for _ in clouds]
    for places in calls(np.array([cloud.length for cloud in clouds]), program.manifest):
        called = [clouds[place] for place in places]
        inputs = arguments(program.manifest, called)
        outputs = _call(program.runs[device], inputs, pipeline)
        for place, result in zip(places, results(program.manifest, outputs, called), strict=True):
            found[place] = result
    return found


def _call(flat: Flat, inputs: Sequence[Array], pipeline: Pipeline | None) -> list[Array]:
    def kernel(*tensors: torch.Tensor) -> list[torch.Tensor]:
        try:
            return [output.detach().contiguous() for output in flat(tensors)]
        except Exception as error:
            if is_out_of_memory(error) or is_sticky(error):
                raise
            reason = (str(error).strip().splitlines() or [type(error).__name__])[0]
            raise InvalidRequestError(
                "points", "inputs that the program accepts", f"its error: {shortened(reason)}"
            ) from error

    if pipeline is not None:
        arrays: list[Array] = pipeline.submit([[a] for a in inputs], kernel, list).result()
        return arrays
    with torch.inference_mode():
        return [output.numpy() for output in kernel(*map(torch.from_numpy, inputs))]
