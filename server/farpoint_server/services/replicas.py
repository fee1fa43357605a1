"""What a process that takes another's place learns of those beside it: models and regions."""

import json
from contextlib import suppress
from typing import Any

from farpoint_server.codec.open_inference.posix_memory import PosixMemory
from farpoint_server.config.models import DEFAULT
from farpoint_server.errors import ServiceError
from farpoint_server.models.registry import Registry


def describe(models: Registry, memory: PosixMemory) -> bytes:
    """What callers have changed since the server started, and so must be the same in each process.

    Args:
        models: Those that are loaded.
        memory: Regions that are registered.
    """
    sources = [(model.name, models.sources[model.name]) for model in models.models]
    state = {
        "models": [DEFAULT if path is None else f"{name}={path}" for name, path in sources],
        "regions": [[owner, *vars(region).values()] for owner, region in memory.all()],
    }
    return json.dumps(state).encode()


def models_of(state: bytes) -> list[str]:
    """The models of a description, as the setting `encoder` names them."""
    found: list[str] = json.loads(state)["models"]
    return found


def take_regions(state: bytes, memory: PosixMemory) -> None:
    """Registers the regions of a description; an object that is gone by now is left out."""
    regions: list[list[Any]] = json.loads(state)["regions"]
    for region in regions:
        with suppress(ServiceError):
            memory.register(*region)
