"""Registry of the loaded models, by name: load, warm up, unload."""

import re
import weakref
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

import structlog

from farpoint_models import EncoderConfig, weights
from farpoint_models.programs.manifest import parse_manifest
from farpoint_server.compute.engine import Engine
from farpoint_server.config.settings import DEFAULT
from farpoint_server.errors import (
    InvalidRequestError,
    NotFoundError,
    ServiceError,
    StartError,
    quoted,
)
from farpoint_server.kinds.model import LoadedModel
from farpoint_server.models.loading import load_model

DEFAULT_NAME = weights.DEFAULT.stem
NAME = re.compile(r"[A-Za-z0-9_.-]{1,64}")
log = structlog.get_logger("farpoint.models")


class Readiness(Protocol):
    """Health of each model, as a service with its name."""

    def knows(self, service: str) -> bool:
        """Whether there is such a service."""

    def know(self, service: str) -> None:
        """Adds a service."""

    def forget(self, service: str) -> None:
        """Removes a service."""


class Registry:
    """Loads and unloads models while others are in use; used on the event loop.

    Args:
        engines: One of each device, which gets a copy of every model.
        readiness: Gets each model once it is warm, and loses it when it is unloaded.
    """

    def __init__(self, engines: Sequence[Engine], readiness: Readiness) -> None:
        self._engines = engines
        self._readiness = readiness
        self._models: dict[str, LoadedModel] = {}
        self.sources: dict[str, Path | None] = {DEFAULT_NAME: None}
        """The file of each model that is or was loaded; None for farpoint_models' weights."""

    @property
    def models(self) -> list[LoadedModel]:
        """Loaded models; the first serves requests that name none."""
        return list(self._models.values())

    def get(self, name: str) -> LoadedModel:
        """The model of a name; raises NotFoundError."""
        if name not in self._models:
            known = ", ".join(self._models) or "none"
            raise NotFoundError(f"model: expected one that is loaded ({known}), got {quoted(name)}")
        return self._models[name]

    def encoder(self, name: str) -> LoadedModel:
        """The encoder of a name, or the first one for an empty name.

        Raises:
            NotFoundError: there is none.
            InvalidRequestError: it is an exported model.
        """
        encoders = [m.name for m in self._models.values() if m.config is not None]
        model = self.get(name or next(iter(encoders), ""))
        if model.config is None:
            raise InvalidRequestError("model", "an encoder (infer runs others)", quoted(name))
        return model

    async def load(self, name: str, path: Path | None, *, is_tried: bool = True) -> LoadedModel:
        """Reads a model as `load_model` does, then replaces the one of the same name.

        Raises:
            InvalidRequestError: the name is not allowed, or the file is not a model.
            OverloadedError: a device has not enough memory for it now.
        """
        self._check_name(name)
        model = self._models[name] = await load_model(name, path, self._engines, is_tried=is_tried)
        self.sources[name] = path
        self._readiness.know(name)
        log.info("model loaded", model=name, path=str(path or DEFAULT))
        return model

    async def load_all(self, specifications: Sequence[str]) -> None:
        """Loads the models of the settings; raises StartError."""
        for specification in specifications:
            name, _, path = specification.partition("=")
            try:
                if specification == DEFAULT:
                    await self.load(DEFAULT_NAME, None)
                else:
                    await self.load(name, Path(path), is_tried=False)
            except ServiceError as error:
                raise StartError(f"model {specification}: {error}") from error

    async def unload(self, name: str) -> None:
        """Unloads a model; requests that use it still hold it. Raises NotFoundError."""
        del self._models[self.get(name).name]
        self._readiness.forget(name)
        log.info("model unloaded", model=name)

    def describe(self) -> list[dict[str, Any]]:
        """The models for `adopt` of another process."""
        return [
            {
                "name": model.name,
                "number": model.number,
                "parameters": model.parameters,
                "manifest": model.manifest.to_json(),
                "config": model.config and model.config.to_json(),
            }
            for model in self.models
        ]

    def adopt(
        self, described: Sequence[Mapping[str, Any]], on_drop: Callable[[int], object]
    ) -> None:
        """Replaces the models by those that another process runs.

        Args:
            described: By its `describe`.
            on_drop: Given a model's number when no request refers to it any more.
        """
        before = {model.number: model for model in self.models}
        models = [before.get(each["number"]) or _described(each, on_drop) for each in described]
        for name in self._models.keys() - {model.name for model in models}:
            self._readiness.forget(name)
        self._models = {model.name: model for model in models}
        for name in self._models:
            self._readiness.know(name)

    @property
    def specifications(self) -> list[str]:
        """The models for `load_all` of a process that replaces this one."""
        sources = [(model.name, self.sources[model.name]) for model in self.models]
        return [DEFAULT if path is None else f"{name}={path}" for name, path in sources]

    def _check_name(self, name: str) -> None:
        if not NAME.fullmatch(name):
            expected = "1 to 64 letters, digits, '_', '-' or '.'"
            raise InvalidRequestError("name", expected, quoted(name))
        if name not in self._models and self._readiness.knows(name):
            raise InvalidRequestError("name", "one that is not that of a service", quoted(name))


def _described(model: Mapping[str, Any], on_drop: Callable[[int], object]) -> LoadedModel:
    manifest, config = parse_manifest(model["manifest"]), model["config"]
    made = LoadedModel(
        model["name"],
        manifest,
        model["parameters"],
        config and EncoderConfig.from_json(config),
        number=model["number"],
    )
    weakref.finalize(made, on_drop, made.number)
    return made
