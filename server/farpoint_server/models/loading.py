"""Models read from files, copied to every device, and run there once."""

import asyncio
import copy
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias, TypeVar

import torch

from farpoint_models import CheckpointError, DensityEncoder, EncoderConfig, load_encoder, weights
from farpoint_models.programs import ProgramError, load_program
from farpoint_models.programs.program import Flat, Program
from farpoint_server.engine.engine import Engine
from farpoint_server.engine.transfer.pipeline import Pipeline
from farpoint_server.engine.types import ModelInput, SoloWork
from farpoint_server.errors import InvalidRequestError, ServiceError, shortened
from farpoint_server.models.forward import EncodeWork
from farpoint_server.models.program import ROW_BYTES, LoadedProgram, ProgramBatch
from farpoint_server.models.trial import sample_request, try_program

# As in a request of a small cloud, enough for every neighborhood to be full.
WARM_UP_POINTS = 256
PROGRAM_SUFFIX = ".pt2"
T = TypeVar("T")


@dataclass(frozen=True)
class LoadedEncoder:
    """A loaded encoder, on each device; usable as long as it is referenced."""

    name: str
    config: EncoderConfig
    encoders: Mapping[torch.device, DensityEncoder]

    @property
    def parameters(self) -> int:
        """Number of parameters."""
        return sum(p.numel() for p in next(iter(self.encoders.values())).parameters())

    def work(self, clouds: ModelInput) -> EncodeWork:
        """A request."""
        return EncodeWork(self.encoders, clouds, cost_key=f"encode {self.name}")


LoadedModel: TypeAlias = LoadedEncoder | LoadedProgram


async def load_model(
    name: str, path: Path | None, engines: Sequence[Engine], *, is_tried: bool
) -> LoadedModel:
    """A model that has run once on every device.

    Args:
        path: Of a safetensors file of an encoder, or of a .pt2 archive of a program; None for the
            shipped weights.
        engines: One of each device, which gets a copy.
        is_tried: Whether a program is first loaded and run in another process, which it may crash.

    Raises:
        InvalidRequestError: the file is neither.
        OverloadedError: a device has not enough memory for it now.
    """
    try:
        if path is not None and path.suffix == PROGRAM_SUFFIX:
            if is_tried:
                await try_program(path, runs=any(e.device.type == "cpu" for e in engines))
            return await _load_program(name, path, engines)
        encoder = await asyncio.to_thread(load_encoder, path or weights.DEFAULT)
    except (CheckpointError, ProgramError, OSError) as error:
        expected = "a safetensors file of an encoder, or a .pt2 archive of a program"
        raise InvalidRequestError("path", expected, shortened(str(error))) from error
    encoders = {}
    for engine in engines:
        encoders[engine.device] = await _run(engine, _warm_up_of(encoder))
    return LoadedEncoder(name, encoder.config, encoders)


async def _load_program(name: str, path: Path, engines: Sequence[Engine]) -> LoadedProgram:
    program = await asyncio.to_thread(load_program, path)
    runs: dict[torch.device, Flat] = {}
    row_ns, row_bytes = 0.0, ROW_BYTES
    for engine in engines:
        runs[engine.device] = await asyncio.to_thread(_on_device, program, engine.device)
        loaded = LoadedProgram(name, program.manifest, runs, program.parameters)
        row_ns, used = await _run(engine, _trial_of(loaded))
        row_bytes = max(row_bytes, used)
    return LoadedProgram(name, program.manifest, runs, program.parameters, row_ns, row_bytes)


@dataclass(frozen=True)
class WarmUp(SoloWork[T]):
    """The first run on a device, as a batch that cannot be cut.

    Args:
        forward: Runs it, given the device.
        predicted_bytes: 0 is not budgeted.
    """

    forward: Callable[[torch.device, Pipeline | None], T]
    predicted_bytes: int = 0
    point_count: int = WARM_UP_POINTS

    def halve(self) -> None:
        """It cannot be cut."""

    def join(self, first: object, second: object) -> None:
        """It is never cut."""

    def run(self, device: torch.device, pipeline: Pipeline | None) -> list[T]:
        """The result of the forward pass."""
        return [self.forward(device, pipeline)]


def _on_device(program: Program, device: torch.device) -> Flat:
    """A copy with its weights in place: batches use a stream that does not wait for others."""
    run = program.on(device)
    if device.type == "cuda":
        torch.cuda.current_stream(device).synchronize()
    return run


def _warm_up_of(encoder: DensityEncoder) -> WarmUp[DensityEncoder]:
    """A copy that has run once, so that no request waits for lazy initialization."""

    def forward(device: torch.device, _: Pipeline | None) -> DensityEncoder:
        ready = copy.deepcopy(encoder).to(device)
        points = torch.rand(1, WARM_UP_POINTS, 3, device=device)
        attributes = torch.zeros(1, ready.config.attributes, WARM_UP_POINTS, device=device)
        with torch.inference_mode():
            ready(points, attributes)[-1].features.cpu()
        return ready

    return WarmUp(forward)


def _trial_of(loaded: LoadedProgram) -> WarmUp[tuple[float, int]]:
    """Nanoseconds and bytes per row, from a second run after a first that initializes."""
    request = sample_request(loaded.manifest)
    batch = ProgramBatch(loaded, [request])

    def forward(device: torch.device, pipeline: Pipeline | None) -> tuple[float, int]:
        try:
            batch.run(device, pipeline)
            used = _allocated(device)
            begun = time.monotonic_ns()
            batch.run(device, pipeline)
        except (InvalidRequestError, ValueError) as error:
            raise ProgramError(f"its first run on {device} failed: {error}") from error
        rows, elapsed_ns = batch.point_count, time.monotonic_ns() - begun
        return elapsed_ns / rows, (_peak(device) - used) // rows

    return WarmUp(forward, batch.predicted_bytes, batch.point_count)


def _allocated(device: torch.device) -> int:
    """Bytes in tensors of a GPU, whose peak is reset; 0 on a CPU."""
    if device.type != "cuda":
        return 0
    torch.cuda.reset_peak_memory_stats(device)
    return torch.cuda.memory_allocated(device)


def _peak(device: torch.device) -> int:
    return torch.cuda.max_memory_allocated(device) if device.type == "cuda" else 0


async def _run(engine: Engine, warm_up: WarmUp[T]) -> T:
    (answer,) = await engine.run(warm_up)
    if isinstance(answer, ServiceError):
        raise answer
    return answer
