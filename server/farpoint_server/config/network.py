"""Settings of TLS, tokens, listening addresses and limits of connections."""

from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field, field_validator, model_validator
from pydantic_settings import NoDecode

from farpoint_server.config.addresses import check_addresses, is_local, is_unix, split_commas
from farpoint_server.config.http import HttpSettings


class NetworkSettings(HttpSettings):
    """The part of Settings that docs/security.md and docs/observability.md are about."""

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
    admin_listen: Annotated[tuple[str, ...], NoDecode] = Field(
        (),
        description="Address of the admin service, which is nowhere else: HOST:PORT or "
        "unix:PATH. Beyond loopback it needs tokens_file or tls_client_ca. The "
        "addresses of listen and http_listen, repeated here, serve both.",
    )
    max_connections: int = Field(
        1024,
        ge=1,
        description="Most connections of one address; a further one is closed at once. Keep it "
        "below the limit of open files.",
    )
    shared_memory_listen: str | None = Field(
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

    @field_validator("admin_listen", mode="before")
    @classmethod
    def _split_admin_addresses(cls, value: Any) -> Any:
        return split_commas(value)

    @field_validator("admin_listen")
    @classmethod
    def _check_admin_addresses(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        check_addresses(value)
        return value

    @field_validator("shared_memory_listen")
    @classmethod
    def _check_socket(cls, value: str | None) -> str | None:
        if value is not None and not (is_unix(value) and len(value) > len("unix:")):
            raise ValueError(f"expected unix:PATH, got {value!r}")
        return value

    @model_validator(mode="after")
    def _check_tls(self) -> "NetworkSettings":
        if (self.tls_certificate is None) != (self.tls_key is None):
            raise ValueError("tls_certificate and tls_key belong together; only one is given")
        if self.tls_client_ca is not None and self.tls_key is None:
            raise ValueError("tls_client_ca needs tls_certificate and tls_key")
        return self

    @model_validator(mode="after")
    def _check_admin(self) -> "NetworkSettings":
        guarded = self.tokens_file is not None or self.tls_client_ca is not None
        for address in self.admin_listen:
            if not is_local(address) and not guarded:
                raise ValueError(
                    f"admin_listen {address} is beyond loopback and would be open to anybody: "
                    "give tokens_file or tls_client_ca"
                )
        return self

    @model_validator(mode="after")
    def _check_age(self) -> "NetworkSettings":
        if self.max_connection_age_grace_s is not None and self.max_connection_age_s is None:
            raise ValueError("max_connection_age_grace_s needs max_connection_age_s")
        return self

    @property
    def admin_over_http(self) -> bool:
        """Whether the admin service is on the HTTP port too."""
        return self.http_listen is not None and self.http_listen in self.admin_listen
