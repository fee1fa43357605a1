"""Registry of the loaded models, by name: load, warm up, unload."""

import asyncio
import copy
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import structlog
import torch

from farpoint_models import CheckpointError, DensityEncoder, EncoderConfig, load_encoder, weights
from farpoint_server.config.models import DEFAULT
from farpoint_server.engine.engine import Engine
from farpoint_server.engine.transfer.pipeline import Pipeline
from farpoint_server.errors import (
    InvalidRequestError,
    ModelUnusableError,
    NotFoundError,
    ServiceError,
    quoted,
    shortened,
)

DEFAULT_NAME = weights.DEFAULT.stem
NAME = re.compile(r"[A-Za-z0-9_.-]{1,64}")
# As in a request of a small cloud, enough for every neighborhood to be full.
WARM_UP_POINTS = 256
log = structlog.get_logger("farpoint.models")


@dataclass(frozen=True)
class LoadedModel:
    """An encoder that is ready, on each device. Whoever holds it may go on using it."""

    name: str
    config: EncoderConfig
    encoders: Mapping[torch.device, DensityEncoder]

    @property
    def parameters(self) -> int:
        """Trained numbers."""
        return sum(p.numel() for p in next(iter(self.encoders.values())).parameters())


class Readiness(Protocol):
    """Where each model is a service of its own name, which is ready once it is known."""

    def knows(self, service: str) -> bool:
        """Whether there is such a service."""
        ...

    async def know(self, service: str) -> None:
        """Adds a service."""
        ...

    async def forget(self, service: str) -> None:
        """Takes a service away."""
        ...


class Registry:
    """Loads and unloads models while others are used. Belongs to the event loop.

    Args:
        engines: Each gets a copy of every model.
        readiness: Told of every model once it is warm, and when it is gone.
    """

    def __init__(self, engines: Sequence[Engine], readiness: Readiness) -> None:
        self._engines = engines
        self._readiness = readiness
        self._models: dict[str, LoadedModel] = {}
        self._sources: dict[str, Path | None] = {DEFAULT_NAME: None}

    @property
    def models(self) -> list[LoadedModel]:
        """All that are ready; the first is the one for requests that name none."""
        return list(self._models.values())

    @property
    def sources(self) -> Mapping[str, Path | None]:
        """The file of each model that is or was loaded; None for farpoint_models' weights."""
        return self._sources

    def get(self, name: str) -> LoadedModel:
        """The model of a name, or the first one for an empty name; raises NotFoundError."""
        return self._find(name or next(iter(self._models), ""))

    async def load(self, name: str, path: Path | None) -> LoadedModel:
        """Reads a model and warms it up; then it takes the place of the one of the same name.

        Args:
            name: What requests call it.
            path: Of a safetensors file; None for the weights that farpoint_models brings.

        Raises:
            InvalidRequestError: it has no such name, or the file is not an encoder.
            OverloadedError: a device has not enough memory for it now.
        """
        self._check_name(name)
        try:
            encoder = await asyncio.to_thread(load_encoder, path or weights.DEFAULT)
        except (CheckpointError, OSError) as error:
            expected = "a safetensors file of an encoder"
            raise InvalidRequestError("path", expected, shortened(str(error))) from error
        encoders = {engine.device: await _warmed_up(encoder, engine) for engine in self._engines}
        model = self._models[name] = LoadedModel(name, encoder.config, encoders)
        self._sources[name] = path
        await self._readiness.know(name)
        log.info("model loaded", model=name, path=str(path or DEFAULT))
        return model

    async def load_all(self, specifications: Sequence[str]) -> None:
        """Loads what the settings name; raises ModelUnusableError."""
        for specification in specifications:
            name, _, path = specification.partition("=")
            try:
                if specification == DEFAULT:
                    await self.load(DEFAULT_NAME, None)
                else:
                    await self.load(name, Path(path))
            except ServiceError as error:
                raise ModelUnusableError(f"encoder {specification}: {error}") from error

    async def unload(self, name: str) -> None:
        """Unloads a model; requests that use it still hold it. Raises NotFoundError."""
        del self._models[self._find(name).name]
        await self._readiness.forget(name)
        log.info("model unloaded", model=name)

    def _find(self, name: str) -> LoadedModel:
        if name not in self._models:
            known = ", ".join(self._models) or "none"
            raise NotFoundError(f"model: expected one that is loaded ({known}), got {quoted(name)}")
        return self._models[name]

    def _check_name(self, name: str) -> None:
        if not NAME.fullmatch(name):
            expected = "1 to 64 letters, digits, '_', '-' or '.'"
            raise InvalidRequestError("name", expected, quoted(name))
        if name not in self._models and self._readiness.knows(name):
            raise InvalidRequestError("name", "one that is not that of a service", quoted(name))


class WarmUp:
    """A copy of an encoder to a device and its first forward pass, as a batch that is not cut."""

    # Not budgeted: the first pass allocates workspaces, which say nothing of the next ones.
    predicted_bytes = 0
    point_count = WARM_UP_POINTS

    def __init__(self, encoder: DensityEncoder) -> None:
        self._encoder = encoder

    def __len__(self) -> int:
        return 1

    def __getitem__(self, _: slice) -> "WarmUp":
        return self

    def halve(self) -> None:
        """It cannot be cut."""

    def join(self, first: object, second: object) -> None:
        """It is never cut."""

    def give_up(self, index: int) -> None:
        """It is never given up."""

    def run(self, device: torch.device, _: Pipeline[Any] | None) -> list[DensityEncoder]:
        """A copy that has run once, so that no request pays for what is made lazily."""
        ready = copy.deepcopy(self._encoder).to(device)
        points = torch.rand(1, WARM_UP_POINTS, 3, device=device)
        attributes = torch.zeros(1, ready.config.attributes, WARM_UP_POINTS, device=device)
        with torch.inference_mode():
            ready(points, attributes)[-1].features.cpu()
        return [ready]


async def _warmed_up(encoder: DensityEncoder, engine: Engine) -> DensityEncoder:
    (ready,) = await engine.run(WarmUp(encoder))
    if isinstance(ready, ServiceError):
        raise ready
    return ready
