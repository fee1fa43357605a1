"""TLS credentials of the gRPC and HTTP servers, from files that may be replaced while they run."""

import ssl
from pathlib import Path
from typing import NamedTuple

import grpc

from farpoint_server.config.settings import Settings
from farpoint_server.errors import SecretsUnusableError
from farpoint_server.transport.reloading import ReloadedFiles
from farpoint_server.transport.sockets import reason_of


class _Loaded(NamedTuple):
    """The same files, for gRPC and for Python's own TLS."""

    grpc: grpc.ServerCertificateConfiguration
    http: ssl.SSLContext


class TlsFiles:
    """Certificate, key and client authorities as the settings name them.

    Args:
        certificate: PEM file with the server's certificate and the chain above it.
        key: PEM file with its key, without a passphrase.
        client_ca: PEM file with the authorities of client certificates; None asks for none.

    Raises:
        SecretsUnusableError: a file cannot be read, or certificate and key do not fit.
    """

    def __init__(self, certificate: Path, key: Path, client_ca: Path | None) -> None:
        paths = [path for path in (certificate, key, client_ca) if path is not None]
        self._require_client = client_ca is not None
        try:
            self._files = ReloadedFiles(paths, lambda: _load(certificate, key, client_ca))
        except (OSError, ValueError) as error:
            raise SecretsUnusableError(str(error)) from error

    def make_credentials(self) -> grpc.ServerCredentials:
        """New credentials, for one port alone.

        Each handshake looks whether a file has changed. Connections that are up stay as they are.
        gRPC gives the certificates that credentials begin with to the first port that they are
        used for, and asks for *changes* from then on; a second port would begin with none.
        """
        begin = self._files.get().grpc
        return grpc.dynamic_ssl_server_credentials(
            begin,
            _Changes(self._files, begin),  # type: ignore[arg-type]  # None is what gRPC documents
            require_client_authentication=self._require_client,
        )

    @property
    def requires_client(self) -> bool:
        """Whether callers must show a certificate."""
        return self._require_client

    def http_context(self) -> ssl.SSLContext:
        """The context of a new connection of HTTP; another one once a file has changed.

        A client certificate is asked for, and one that is shown must be good; that there is one is
        for the application to check, since probes of health have none.
        """
        return self._files.get().http


def tls_files(settings: Settings) -> TlsFiles | None:
    """Those of the settings; None where the settings ask for no TLS.

    Raises:
        SecretsUnusableError: as `TlsFiles`.
    """
    if settings.tls_certificate is None or settings.tls_key is None:
        return None
    return TlsFiles(settings.tls_certificate, settings.tls_key, settings.tls_client_ca)


class _Changes:
    """What gRPC calls at each handshake, one at a time: the new files, or None for the old ones."""

    def __init__(
        self,
        files: ReloadedFiles[_Loaded],
        given: grpc.ServerCertificateConfiguration,
    ) -> None:
        self._files = files
        self._given = given

    def __call__(self) -> grpc.ServerCertificateConfiguration | None:
        current = self._files.get().grpc
        if current is self._given:
            return None
        self._given = current
        return current


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
    """Raises ValueError, where gRPC would only log later that no handshake succeeds."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.set_alpn_protocols(["http/1.1"])
    try:
        flags = f"--tls-certificate {certificate}, --tls-key {key}"
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
