"""Settings of access, HTTP and connections.

The docstring of a class is the title of its group in `--help`.
"""

import re
from pathlib import Path
from typing import Annotated, Literal, TypeAlias

from pydantic import AfterValidator, BeforeValidator, Field
from pydantic_settings import BaseSettings, NoDecode

from farpoint_server.config.addresses import Addresses, HostPort, UnixPath, split_commas


def _check_origin(origin: str) -> str:
    if origin != "*" and not re.fullmatch(r"https?://[^/?#@\s]+", origin):
        raise ValueError(f"expected http(s)://HOST, without a path, or *, got {origin!r}")
    return origin


Origins: TypeAlias = Annotated[
    tuple[Annotated[str, AfterValidator(_check_origin)], ...],
    NoDecode,
    BeforeValidator(split_commas),
]


class AccessSettings(BaseSettings):
    """TLS, tokens and administration (docs/security.md)"""

    tls_certificate: Path | None = Field(
        None,
        description="PEM file with the server's certificate and the chain above it. With it every "
        "HOST:PORT speaks TLS alone; a unix socket stays plain. The files of TLS are read again "
        "when they change.",
    )
    tls_key: Path | None = Field(
        None, description="PEM file with the key of the certificate, without a passphrase."
    )
    tls_client_ca: Path | None = Field(
        None,
        description="PEM file with the authorities of client certificates. With it a client over "
        "TLS must show one of theirs (mTLS).",
    )
    tokens_file: Path | None = Field(
        None,
        description="File of bearer tokens, one per line: NAME SCOPES TOKEN, with the scopes "
        "sample and admin. With it each call except health and reflection must carry a token of "
        "its scope. Read again when it changes.",
    )
    admin_listen: Addresses = Field(
        (),
        description="Address of the admin service, which is nowhere else: HOST:PORT or "
        "unix:PATH. Beyond loopback it needs tokens_file or tls_client_ca. The "
        "addresses of listen and http_listen, repeated here, serve both.",
    )


class HttpSettings(BaseSettings):
    """HTTP, metrics and traces (docs/observability.md)"""

    http_listen: HostPort | None = Field(
        None,
        description="HOST:PORT of HTTP: a page to look at, the unary calls (Connect protocol, JSON "
        "too), /metrics (Prometheus) and /healthz. Calls need TLS and tokens as over gRPC; the "
        "page, /metrics and /healthz need no token and no client certificate.",
    )
    http_origins: Origins = Field(
        (),
        description="Origin whose web pages may call over HTTP, such as https://viewer.example; * "
        "for any. Repeat the flag, or separate by commas, for several. Without it only the "
        "server's own page may. On loopback also the names by which a proxy asks for this server.",
    )
    max_http_connections: int = Field(
        256,
        ge=1,
        description="Most connections of http_listen. For a further one that which has waited "
        "longest for its request is closed; where all are at work, it is told 503.",
    )
    probe_listen: HostPort | None = Field(
        None,
        description="HOST:PORT of /healthz and /readyz alone, in plain text also where the others "
        "have TLS, for the probes of an orchestrator. Nothing else can be asked for there.",
    )
    otlp_endpoint: str | None = Field(
        None,
        pattern=r"^https?://",
        description="URL of an OpenTelemetry collector for traces, OTLP over gRPC, such as "
        "http://127.0.0.1:4317. Needs the extra farpoint-server[tracing].",
    )


class ConnectionSettings(BaseSettings):
    """Connections (docs/security.md)"""

    max_connections: int = Field(
        1024,
        ge=1,
        description="Most connections of one address; a further one is closed at once. Keep it "
        "below the limit of open files.",
    )
    max_streams: int = Field(
        1024,
        ge=1,
        description="Most calls at once on one connection; further ones wait in the client.",
    )
    handshake_timeout_s: float = Field(
        10.0,
        gt=0,
        description="Seconds in which a new connection has to begin with TLS and HTTP/2. Silent "
        "connections count in max_connections until then.",
    )
    idle_timeout_s: float = Field(
        3600.0,
        gt=0,
        description="Seconds after which a connection without a call is closed, which its client "
        "does not notice, and a SampleStream ends that sends nothing. Health watches stay.",
    )
    send_timeout_s: float = Field(
        30.0,
        gt=0,
        description="Seconds that a peer may let an answer wait, beside a second for each 256 KiB "
        "of it. Then its connection is closed, with all of its calls.",
    )
    max_connection_age_s: float | None = Field(
        None,
        gt=0,
        description="Seconds after which a connection takes no further calls and its client makes "
        "a new one, which may find a server that was started since; up to a tenth more or less, so "
        "that not all come at once. Without it a connection stays.",
    )
    max_connection_age_grace_s: float | None = Field(
        None,
        gt=0,
        description="Seconds that the calls of such a connection then have until they are cut off. "
        "Without it they may end in their own time.",
    )
    compression: Literal["on", "off"] = Field(
        "off",
        description="Whether callers may compress messages with gzip or deflate. Coordinates gain "
        "little by it, and a thousandth of the bytes then takes the same memory. Otherwise such a "
        "call is UNIMPLEMENTED. Before grpcio 1.85 a message is unpacked before its size counts.",
    )
    load_reports: Literal["on", "off"] = Field(
        "on",
        description="Whether answers over gRPC say how loaded the server is (ORCA), for clients "
        "that prefer the less loaded of several servers. Any caller can read it.",
    )
    shared_memory_listen: UnixPath | None = Field(
        None,
        description="unix:PATH of a socket on which callers on this machine hand memory over, "
        "from which Sample then reads instead of receiving. Who may open it is up to the "
        "permissions of the file. Linux only.",
    )
    max_shared_memory_bytes: int = Field(
        1 << 30,
        ge=1,
        description="Most bytes of memory that all callers together share at a time. It is theirs; "
        "what a request reads of it counts in max_bytes_in_flight as well.",
    )
