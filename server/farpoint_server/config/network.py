"""Addresses HOST:PORT and unix:PATH, and the settings of access, HTTP and connections.

The docstring of a class is the title of its group in `--help`.
"""

import ipaddress
import re
from pathlib import Path
from typing import Annotated, Any, TypeAlias, TypeVar

from pydantic import AfterValidator, BeforeValidator, Field
from pydantic_settings import BaseSettings, NoDecode


def split_commas(value: Any) -> Any:
    """Items of a text separated by commas, also within a repeated flag; other values unchanged."""
    parts = [value] if isinstance(value, str) else value
    if not isinstance(parts, list | tuple) or not all(isinstance(part, str) for part in parts):
        return value
    return tuple(item.strip() for part in parts for item in part.split(","))


def split_host_port(address: str) -> tuple[str, int]:
    """Host without the brackets of IPv6, and port."""
    host, _, port = address.rpartition(":")
    return host.strip("[]"), int(port)


def is_unix(address: str) -> bool:
    """Whether it is a socket in the file system, which file permissions protect."""
    return address.startswith("unix:")


def is_local(address: str) -> bool:
    """Whether only this machine can reach it."""
    host = address.rpartition(":")[0].strip("[]")
    if is_unix(address) or host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _one_of(*forms: str) -> AfterValidator:
    """Checks that an address has one of the forms HOST:PORT and unix:PATH."""

    def check(address: str) -> str:
        host, _, port = address.rpartition(":")
        if is_unix(address):
            fits = "unix:PATH" in forms and address != "unix:"
        else:
            fits = "HOST:PORT" in forms and host != "" and port.isdecimal() and int(port) <= 65535
        if not fits:
            raise ValueError(f"expected {' or '.join(forms)}, got {address!r}")
        return address

    return AfterValidator(check)


T = TypeVar("T")
Several: TypeAlias = Annotated[tuple[T, ...], NoDecode, BeforeValidator(split_commas)]
"""The values of a flag that may be repeated."""
HostPort: TypeAlias = Annotated[str, _one_of("HOST:PORT")]
UnixPath: TypeAlias = Annotated[str, _one_of("unix:PATH")]
Addresses: TypeAlias = Several[Annotated[str, _one_of("HOST:PORT", "unix:PATH")]]


def _check_origin(origin: str) -> str:
    if origin != "*" and not re.fullmatch(r"https?://[^/?#@\s]+", origin):
        raise ValueError(f"expected http(s)://HOST, without a path, or *, got {origin!r}")
    return origin


Origins: TypeAlias = Several[Annotated[str, AfterValidator(_check_origin)]]


class AccessSettings(BaseSettings, use_attribute_docstrings=True):
    """TLS, tokens and administration (docs/security.md)"""

    tls_certificate: Path | None = None
    """PEM file with the server's certificate and its chain. With it every HOST:PORT accepts only
    TLS. TLS files are read again when they change."""
    tls_key: Path | None = None
    """PEM file with the certificate's key, without a passphrase."""
    tls_client_ca: Path | None = None
    """PEM file with the authorities of client certificates. With it clients over TLS need a
    certificate (mTLS)."""
    tokens_file: Path | None = None
    """File of bearer tokens, one per line: NAME SCOPES TOKEN, with the scopes sample and admin.
    With it all calls except health and reflection need a token. Read again when it changes."""
    admin_listen: Addresses = ()
    """Address of the admin service: HOST:PORT or unix:PATH. Beyond loopback it needs tokens_file or
    tls_client_ca. An address of listen or http_listen may be repeated here and then serves both."""


class HttpSettings(BaseSettings, use_attribute_docstrings=True):
    """HTTP, metrics and traces (docs/operations.md)"""

    http_listen: HostPort | None = None
    """HOST:PORT for HTTP: the page, unary calls (Connect, also JSON), /metrics (Prometheus) and
    /healthz. Calls need TLS and tokens as over gRPC, the rest does not."""
    http_origins: Origins = ()
    """Origin whose web pages may call over HTTP, such as https://viewer.example, or * for any.
    Repeat the flag, or separate by commas. Default: only the server's own page. On loopback also
    the host names that a proxy forwards."""
    probe_listen: HostPort | None = None
    """HOST:PORT for /healthz and /readyz only, in plain text even with TLS, for the probes of an
    orchestrator."""
    otlp_endpoint: str | None = Field(None, pattern=r"^https?://")
    """URL of an OpenTelemetry collector for traces, OTLP over gRPC, such as http://127.0.0.1:4317.
    Needs the extra farpoint-server[tracing]."""


class ConnectionSettings(BaseSettings, use_attribute_docstrings=True):
    """Connections (docs/security.md)"""

    max_connections: int = Field(1024, ge=1)
    """Maximum number of connections of one listening address; a further one is closed. Keep it
    below the limit of open files."""
    handshake_timeout_s: float = Field(10.0, gt=0)
    """Seconds within which a new connection must begin TLS and HTTP/2."""
    idle_timeout_s: float = Field(3600.0, gt=0)
    """Seconds after which a connection without calls is closed and a silent SampleStream ends.
    Health watches stay open."""
    send_timeout_s: float = Field(30.0, gt=0)
    """Seconds that a peer may leave an answer unread, plus one for each 256 KiB. After that its
    connection is closed with all of its calls."""
    max_connection_age_s: float | None = Field(None, gt=0)
    """Seconds (within a tenth) after which a connection accepts no further calls, so that its
    client reconnects, perhaps to a newer server."""
    shared_memory_listen: UnixPath | None = None
    """unix:PATH of a socket on which callers of this machine share memory, so that Sample reads
    their clouds without receiving them."""
    max_shared_memory_bytes: int = Field(1 << 30, ge=1)
    """Maximum number of bytes that all callers together share."""
