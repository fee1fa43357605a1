"""The server's side of TLS: credentials from files that may be replaced while it runs."""

import ssl
from pathlib import Path

import grpc

from farpoint_server.config.network import EdgeSettings
from farpoint_server.errors import SecretsUnusableError
from farpoint_server.transport.reloading import Watched


def credentials(settings: EdgeSettings) -> grpc.ServerCredentials | None:
    """Credentials of the settings' files; None where the settings ask for no TLS.

    Every handshake looks whether a file has changed. Connections that are up stay as they are.

    Raises:
        SecretsUnusableError: a file cannot be read, or certificate and key do not fit.
    """
    certificate, key, client_ca = (
        settings.tls_certificate,
        settings.tls_key,
        settings.tls_client_ca,
    )
    if certificate is None or key is None:
        return None
    paths = [path for path in (certificate, key, client_ca) if path is not None]
    try:
        files = Watched(paths, lambda: _load(certificate, key, client_ca))
    except (OSError, ValueError) as error:
        raise SecretsUnusableError(f"--tls-certificate, --tls-key: {error}") from error
    return grpc.dynamic_ssl_server_credentials(
        files.get(),
        _Changes(files),  # type: ignore[arg-type]  # None is what gRPC documents
        require_client_authentication=client_ca is not None,
    )


class _Changes:
    """What gRPC calls at each handshake, one at a time: the new files, or None for the old ones."""

    def __init__(self, files: Watched[grpc.ServerCertificateConfiguration]) -> None:
        self._files = files
        self._given = files.get()

    def __call__(self) -> grpc.ServerCertificateConfiguration | None:
        current = self._files.get()
        if current is self._given:
            return None
        self._given = current
        return current


def _load(
    certificate: Path, key: Path, client_ca: Path | None
) -> grpc.ServerCertificateConfiguration:
    _check(certificate, key, client_ca)
    pair = (key.read_bytes(), certificate.read_bytes())
    root = None if client_ca is None else client_ca.read_bytes()
    return grpc.ssl_server_certificate_configuration([pair], root)


def _check(certificate: Path, key: Path, client_ca: Path | None) -> None:
    """Raises ValueError, where gRPC would only log later that no handshake succeeds."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    try:
        # The password would otherwise be asked for on the terminal.
        context.load_cert_chain(certificate, key, password="")
        if client_ca is not None:
            context.load_verify_locations(client_ca)
    except ssl.SSLError as error:
        reason = (error.reason or "no PEM file of the expected kind").lower().replace("_", " ")
        files = ", ".join(str(path) for path in (certificate, key, client_ca) if path)
        raise ValueError(f"{reason} in {files}") from error
