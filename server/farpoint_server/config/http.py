"""Settings of what is asked for over HTTP: the page and calls, metrics, probes; and of traces."""

import re
from typing import Annotated, Any

from pydantic import Field, field_validator
from pydantic_settings import BaseSettings, NoDecode

from farpoint_server.config.addresses import check_address, split_commas


class HttpSettings(BaseSettings):
    """A part of NetworkSettings."""

    http_listen: str | None = Field(
        None,
        description="HOST:PORT of HTTP: a page to look at, the unary calls (Connect protocol, JSON "
        "too), /metrics (Prometheus) and /healthz. Calls need TLS and tokens as over gRPC; the "
        "page, /metrics and /healthz need no token and no client certificate.",
    )
    http_origins: Annotated[tuple[str, ...], NoDecode] = Field(
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
    probe_listen: str | None = Field(
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

    @field_validator("http_listen", "probe_listen")
    @classmethod
    def _check_http_address(cls, value: str | None) -> str | None:
        if value is not None:
            check_address(value)
            if value.startswith("unix:"):
                raise ValueError(f"expected HOST:PORT, got {value!r}")
        return value

    @field_validator("http_origins", mode="before")
    @classmethod
    def _split_origins(cls, value: Any) -> Any:
        """A flag that is repeated may itself have commas."""
        if not isinstance(value, list | tuple) or not all(isinstance(v, str) for v in value):
            return split_commas(value)
        return tuple(origin for part in value for origin in split_commas(part))

    @field_validator("http_origins")
    @classmethod
    def _check_origins(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        for origin in value:
            if origin != "*" and not re.fullmatch(r"https?://[^/?#@\s]+", origin):
                raise ValueError(f"expected http(s)://HOST, without a path, or *, got {origin!r}")
        return value
