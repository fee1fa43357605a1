"""Models read from files, copied to every device, and run there once."""

import asyncio
import copy
import gc
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar

import torch

from farpoint_models import CheckpointError, DensityEncoder, load_encoder, weights
from farpoint_models.programs import ProgramError, load_program
from farpoint_models.programs.program import Flat
from farpoint_server.compute.batch import Batch
from farpoint_server.compute.engine import Engine
from farpoint_server.errors import InvalidRequestError, ServiceError, shortened
from farpoint_server.kinds.encoder import as_flat, manifest_of, row_bytes
from farpoint_server.kinds.model import LoadedModel, TrialWork
from farpoint_server.models.trial import sample_request, try_program

PROGRAM_SUFFIX = ".pt2"
T = TypeVar("T")


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
        return await _load(name, path, engines, is_tried=is_tried)
    except (CheckpointError, ProgramError, OSError) as error:
        expected = "a safetensors file of an encoder, or a .pt2 archive of a program"
        raise InvalidRequestError("path", expected, shortened(str(error))) from error
    finally:
        # Exported programs are cycles, which would hold the weights of an unloaded model.
        await asyncio.to_thread(gc.collect)


async def _load(
    name: str, path: Path | None, engines: Sequence[Engine], *, is_tried: bool
) -> LoadedModel:
    if path is not None and path.suffix == PROGRAM_SUFFIX:
        on_cpu = any(engine.device.type == "cpu" for engine in engines)
        if is_tried:
            await try_program(path, runs=on_cpu)
        program = await asyncio.to_thread(load_program, path)
        if not (is_tried and on_cpu):
            await asyncio.to_thread(_run, engines[0], program.check)
        model = LoadedModel(name, program.manifest, program.parameters)
        model.is_steady = program.is_steady
        model.peaks = await asyncio.to_thread(_run, engines[0], program.peaks)
        to_device, is_capturable = program.on, program.is_capturable
    else:
        encoder = await asyncio.to_thread(load_encoder, path or weights.DEFAULT)
        model, is_capturable = _model_of(name, encoder), True

        def to_device(device: torch.device) -> Flat:
            return as_flat(copy.deepcopy(encoder).to(device))

    for engine in engines:
        await asyncio.to_thread(_put, model, engine.device, to_device, is_capturable=is_capturable)
        await _try(model, engine)
    return model


def _run(engine: Engine, function: Callable[[torch.device], T]) -> T:
    """Calls a function that runs a model on a device, without an OpenMP team for this thread."""
    torch.set_num_threads(1)
    with engine.memory.forward():
        return function(engine.device)


def _model_of(name: str, encoder: DensityEncoder) -> LoadedModel:
    parameters = sum(parameter.numel() for parameter in encoder.parameters())
    model = LoadedModel(name, manifest_of(encoder.config), parameters, encoder.config)
    model.peaks = ((1, row_bytes(encoder.config)),)
    return model


def _put(
    model: LoadedModel,
    device: torch.device,
    to_device: Callable[[torch.device], Flat],
    *,
    is_capturable: bool,
) -> None:
    """A copy with its weights in place: batches use streams that do not wait for others."""
    torch.set_num_threads(1)
    model.put(device, to_device(device), is_capturable=is_capturable)
    if device.type == "cuda":
        torch.cuda.current_stream(device).synchronize()


async def _try(model: LoadedModel, engine: Engine) -> None:
    """Runs it, so that no request waits for lazy initialization, and times a call."""
    trial = TrialWork(model, sample_request(model.manifest))
    try:
        answer: Any = (await engine.submit(Batch([trial])))[0]
    except (InvalidRequestError, ValueError) as error:
        raise ProgramError(f"its first run on {engine.device} failed: {error}") from error
    if isinstance(answer, ServiceError):
        raise answer
    model.first_calls[engine.device_type] = trial.point_count, answer
