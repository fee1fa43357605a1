"""TLS credentials of the gRPC and HTTP servers, from files that may be replaced while they run."""

import ssl
from pathlib import Path
from typing import NamedTuple

import grpc

from farpoint_server.config.settings import Settings
from farpoint_server.errors import StartError
from farpoint_server.transport.reloading import ReloadedFiles
from farpoint_server.transport.sockets import reason_of


class _Loaded(NamedTuple):
    """The same files, for gRPC and for Python's own TLS."""

    grpc: grpc.ServerCertificateConfiguration
    http: ssl.SSLContext


class TlsFiles:
    """Certificate, key and client authorities, as PEM files.

    Raises:
        StartError: a file cannot be read, or certificate and key do not fit.
    """

    def __init__(self, certificate: Path, key: Path, client_ca: Path | None) -> None:
        paths = [path for path in (certificate, key, client_ca) if path is not None]
        self.requires_client = client_ca is not None
        """Whether callers must show a certificate."""
        try:
            self._files = ReloadedFiles(paths, lambda: _load(certificate, key, client_ca))
        except (OSError, ValueError) as error:
            raise StartError(str(error)) from error

    def make_credentials(self) -> grpc.ServerCredentials:
        """New credentials for one port.

        Each handshake looks whether a file has changed. Connections that are up stay as they are.
        gRPC gives the certificates that credentials begin with to the first port that they are
        used for, and asks for *changes* from then on; a second port would begin with none.
        """
        given = self._files.get().grpc

        def changed() -> grpc.ServerCertificateConfiguration | None:
            """Called by gRPC at each handshake, one at a time; None if nothing changed."""
            nonlocal given
            former, given = given, self._files.get().grpc
            return None if given is former else given

        return grpc.dynamic_ssl_server_credentials(
            given,
            changed,  # type: ignore[arg-type]  # None is what gRPC documents
            require_client_authentication=self.requires_client,
        )

    def http_context(self) -> ssl.SSLContext:
        """The context of a new HTTP connection; a new one after a file has changed.

        A client certificate is asked for, and one that is shown must be good; that there is one is
        for the application to check, since probes of health have none.
        """
        return self._files.get().http


def tls_files(settings: Settings) -> TlsFiles | None:
    """The files of the settings; None without TLS.

    Raises:
        StartError: as `TlsFiles`.
    """
    if settings.tls_certificate is None or settings.tls_key is None:
        return None
    return TlsFiles(settings.tls_certificate, settings.tls_key, settings.tls_client_ca)


def _load(certificate: Path, key: Path, client_ca: Path | None) -> _Loaded:
    pair = (_read("--tls-key", key), _read("--tls-certificate", certificate))
    root = None if client_ca is None else _read("--tls-client-ca", client_ca)
    context = _make_context(certificate, key, client_ca)
    return _Loaded(grpc.ssl_server_certificate_configuration([pair], root), context)


def _read(flag: str, path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise ValueError(f"{flag} {path}: {reason_of(error)}") from error


def _make_context(certificate: Path, key: Path, client_ca: Path | None) -> ssl.SSLContext:
    """Raises ValueError for invalid files; gRPC would only log failed handshakes later."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.set_alpn_protocols(["http/1.1"])
    flags = f"--tls-certificate {certificate}, --tls-key {key}"
    try:
        # The password would otherwise be asked for on the terminal.
        context.load_cert_chain(certificate, key, password="")
        if client_ca is not None:
            flags = f"--tls-client-ca {client_ca}"
            context.load_verify_locations(client_ca)
            context.verify_mode = ssl.CERT_OPTIONAL
    except ssl.SSLError as error:
        reason = (error.reason or "no PEM file of the expected kind").lower().replace("_", " ")
        raise ValueError(f"{flags}: {reason}") from error
    return context
