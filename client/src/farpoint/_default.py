"""`farpoint.sample`: sampling in one line, by the server that the environment names."""

import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, overload

from farpoint._client import Client
from farpoint._connection.security import Tls
from farpoint._connection.targets import DEFAULT_TARGET
from farpoint._rpcs.methods import SampleOptions
from farpoint._types import BatchArray, CloudArray, CloudLike, Counts
from farpoint.errors import InvalidArgumentError
from farpoint.results import Sample

if TYPE_CHECKING:
    from typing_extensions import Unpack

_TLS_FILES = ("FARPOINT_CA", "FARPOINT_CERTIFICATE", "FARPOINT_KEY", "FARPOINT_SERVER_NAME")


@dataclass(frozen=True)
class _Environment:
    """The variables that the command `farpoint` reads too."""

    server: str
    tls: Tls | bool
    token: str | None = field(repr=False)


@overload
def sample(points: CloudArray, m: Counts = None, **options: "Unpack[SampleOptions]") -> Sample: ...


@overload
def sample(  # type: ignore[overload-overlap]  # a batch in one array is an array too
    points: BatchArray | Sequence[CloudLike], m: Counts = None, **options: "Unpack[SampleOptions]"
) -> list[Sample]: ...


@overload
def sample(points: CloudLike, m: Counts = None, **options: "Unpack[SampleOptions]") -> Sample: ...


def sample(points: Any, m: Counts = None, **options: "Unpack[SampleOptions]") -> Any:
    """Chooses m points of each cloud by farthest point sampling; see `Client.sample`.

    The server is the one that the environment variable FARPOINT_SERVER names, else the one at
    127.0.0.1:50051. FARPOINT_TLS, FARPOINT_CA, FARPOINT_CERTIFICATE, FARPOINT_KEY,
    FARPOINT_SERVER_NAME, FARPOINT_TOKEN and FARPOINT_TOKEN_FILE are heeded as by the command
    `farpoint`. The connection stays open for later calls.
    """
    return default_client().sample(points, m, **options)


def default_client() -> Client:
    """The process's client of the server that the environment names now."""
    return _client(_read_environment())


@lru_cache(maxsize=4)
def _client(environment: _Environment) -> Client:
    return Client(environment.server, tls=environment.tls, token=environment.token)


def _read_environment() -> _Environment:
    files = [os.environ.get(name) or None for name in _TLS_FILES]
    wanted = os.environ.get("FARPOINT_TLS", "").lower() in ("1", "true", "t", "yes", "y", "on")
    return _Environment(
        os.environ.get("FARPOINT_SERVER") or DEFAULT_TARGET,
        Tls(*files) if wanted or any(files) else False,
        _read_token(),
    )


def _read_token() -> str | None:
    path = os.environ.get("FARPOINT_TOKEN_FILE")
    if not path:
        return os.environ.get("FARPOINT_TOKEN") or None
    try:
        return Path(path).read_text().strip()
    except OSError as error:
        raise InvalidArgumentError(f"token file {path}: {error.strerror}", field="token") from error
