"""TLS and bearer tokens: the channel credentials for a client's arguments."""

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

import grpc

from farpoint._connection.proxies import SOCKETS, is_local
from farpoint.errors import InvalidArgumentError

PathLike: TypeAlias = str | os.PathLike[str]


@dataclass(frozen=True)
class Tls:
    """TLS and mTLS settings. Files are PEM.

    Args:
        ca: the authorities that are trusted; None trusts those that gRPC brings along.
        certificate: the client's certificate with its chain, for a server that asks for one.
        key: the key of the certificate.
        server_name: name in the server's certificate, where the target has another.
    """

    ca: PathLike | None = None
    certificate: PathLike | None = None
    key: PathLike | None = None
    server_name: str | None = None


@dataclass(frozen=True)
class Security:
    """Credentials and options of a channel; plain text without credentials."""

    credentials: grpc.ChannelCredentials | None = None
    options: tuple[tuple[str, Any], ...] = ()


def read_security(
    target: str,
    tls: "bool | PathLike | Tls" = False,
    token: str | None = None,
    credentials: grpc.ChannelCredentials | None = None,
) -> Security:
    """The security for a client's arguments.

    Raises:
        InvalidArgumentError: they contradict each other, a file cannot be used, or the token
            would cross a network in plain text.
    """
    if credentials is not None:
        if tls:
            raise InvalidArgumentError("give tls or credentials, not both", field="tls")
        return Security(_with_token(credentials, token))
    if tls:
        settings = _tls(tls)
        name = settings.server_name
        options = () if name is None else (("grpc.ssl_target_name_override", name),)
        return Security(_with_token(_tls_credentials(settings), token), options)
    return Security() if token is None else Security(_with_token(_local(target), token))


def _tls(tls: "bool | PathLike | Tls") -> Tls:
    if isinstance(tls, Tls):
        return tls
    return Tls() if isinstance(tls, bool) else Tls(ca=tls)


def _tls_credentials(tls: Tls) -> grpc.ChannelCredentials:
    if (tls.certificate is None) != (tls.key is None):
        raise InvalidArgumentError("tls: certificate and key belong together", field="tls")
    _check(tls)
    return grpc.ssl_channel_credentials(_read(tls.ca), _read(tls.key), _read(tls.certificate))


def _check(tls: Tls) -> None:
    """Checks a file, because gRPC would only report that no server can be reached."""
    import ssl

    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    try:
        if tls.ca is not None:
            context.load_verify_locations(tls.ca)
        if tls.certificate is not None and tls.key is not None:
            # The password would otherwise be asked for on the terminal.
            context.load_cert_chain(tls.certificate, tls.key, password="")
    except OSError as error:
        files = ", ".join(str(path) for path in (tls.ca, tls.certificate, tls.key) if path)
        reason = getattr(error, "reason", None) or error.strerror or "not PEM files of this kind"
        raise InvalidArgumentError(f"tls: {reason}: {files}", field="tls") from error


def _read(path: PathLike | None) -> bytes | None:
    return None if path is None else Path(path).read_bytes()


def _with_token(credentials: grpc.ChannelCredentials, token: str | None) -> grpc.ChannelCredentials:
    if token is None:
        return credentials
    if not token or not token.isascii() or not token.isprintable() or " " in token:
        # The token itself must not end in a log.
        raise InvalidArgumentError(
            "token must be printable ASCII without spaces, got other characters or none",
            field="token",
        )
    return grpc.composite_channel_credentials(
        credentials, grpc.access_token_call_credentials(token)
    )


def _local(target: str) -> grpc.ChannelCredentials:
    """Plain credentials for a peer on this machine, which gRPC enforces."""
    if target.startswith(SOCKETS):
        return grpc.local_channel_credentials(grpc.LocalConnectionType.UDS)
    if not is_local(target):
        raise InvalidArgumentError(
            f"token would cross the network to {target} in plain text: give tls as well",
            field="token",
        )
    return grpc.local_channel_credentials(grpc.LocalConnectionType.LOCAL_TCP)
