"""The server in the environment, and `farpoint.sample`, which uses it."""

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from farpoint._connection.targets import DEFAULT_TARGET, DEFAULT_TIMEOUT_S, checked_target
from farpoint.errors import InvalidArgumentError

if TYPE_CHECKING:  # gRPC is loaded with the first client
    from farpoint._client import Client
    from farpoint._connection.security import Security, Tls

_PREFIX = "FARPOINT_"
_TRUE = ("1", "true", "t", "yes", "y", "on")


@dataclass(frozen=True)
class Connection:
    """Server, TLS and token from the variables FARPOINT_SERVER, ... and options."""

    server: str | None = None
    tls: bool | None = None
    ca: str | None = None
    certificate: str | None = None
    key: str | None = None
    server_name: str | None = None
    token_file: str | None = None
    token: str | None = field(default=None, repr=False)

    @classmethod
    def from_environment(cls, **options: Any) -> "Connection":
        """The connection of the environment, overridden by options."""
        found: Mapping[str, Any] = {
            name: os.environ.get(_PREFIX + name.upper()) or None
            for name in cls.__dataclass_fields__
        }
        tls = (found["tls"] or "").lower() in _TRUE
        return cls(**{**found, "tls": tls, **options})

    @property
    def target(self) -> str:
        """The server's address."""
        return checked_target(self.server or DEFAULT_TARGET)

    def connect(self, timeout: float = DEFAULT_TIMEOUT_S) -> "Client":
        """A client of the server."""
        from farpoint._client import Client

        return Client(self.target, timeout=timeout, tls=self._tls(), token=self._token())

    def security(self) -> "Security":
        """Security of channels without a client."""
        from farpoint._connection.security import read_security

        return read_security(self.target, self._tls(), self._token())

    def _tls(self) -> "Tls | bool":
        from farpoint._connection.security import Tls

        files = (self.ca, self.certificate, self.key, self.server_name)
        return Tls(*files) if self.tls or any(files) else False

    def _token(self) -> str | None:
        if self.token_file is None:
            return self.token
        try:
            return Path(self.token_file).read_text().strip()
        except OSError as error:
            raise InvalidArgumentError(
                f"token file {self.token_file}: {error.strerror}", field="token"
            ) from error


def default_client() -> "Client":
    """The process's client of the server in the environment."""
    return _client(Connection.from_environment())


@lru_cache(maxsize=4)
def _client(connection: Connection) -> "Client":
    return connection.connect()


if TYPE_CHECKING:
    sample = default_client().sample  # with its overloads
else:

    def sample(points: Any, m: Any = None, **options: Any) -> Any:
        """Samples points of each cloud with the server in the environment; see `Client.sample`.

        The server is the one that the environment variable FARPOINT_SERVER names, else the one at
        127.0.0.1:50051. FARPOINT_TLS, FARPOINT_CA, FARPOINT_CERTIFICATE, FARPOINT_KEY,
        FARPOINT_SERVER_NAME, FARPOINT_TOKEN and FARPOINT_TOKEN_FILE are read as by the command
        `farpoint`. The connection stays open for later calls.
        """
        return default_client().sample(points, m, **options)
