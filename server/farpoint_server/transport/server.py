"""The gRPC servers of a process: the public one, and the one for administration."""

from collections.abc import Sequence
from dataclasses import dataclass

import grpc

from farpoint_server.config.settings import Settings
from farpoint_server.transport import tls
from farpoint_server.transport.auth import Authorization
from farpoint_server.transport.listener import listen, make_server
from farpoint_server.transport.tokens import TokenFile


@dataclass(frozen=True)
class Addresses:
    """What the servers are bound to, with the ports that were taken."""

    public: Sequence[str]
    admin: Sequence[str]


class Ports:
    """Two servers with the same limits, credentials and tokens.

    Attributes:
        public: Serves `listen`.
        admin: Serves `admin_listen`: the public one if all its addresses are in `listen`, None
            if there are none.

    Args:
        settings: The server's.
        interceptors: Of both, the outermost first; that of tokens is added inside of them.

    Raises:
        SecretsUnusableError: a file of TLS or of tokens cannot be used.
    """

    def __init__(
        self, settings: Settings, interceptors: Sequence[grpc.aio.ServerInterceptor]
    ) -> None:
        self._settings = settings
        self._credentials = tls.credentials(settings)
        if settings.tokens_file is not None:
            interceptors = [*interceptors, Authorization(TokenFile(settings.tokens_file))]
        self.public = make_server(settings, interceptors)
        self.admin: grpc.aio.Server | None = None
        if settings.admin_listen:
            shared = set(settings.admin_listen) <= set(settings.listen)
            self.admin = self.public if shared else make_server(settings, interceptors)

    def bind(self) -> Addresses:
        """Binds every address of the settings.

        Raises:
            AddressUnavailableError: one is in use, not ours, or not allowed.
        """
        public = listen(self.public, self._settings.listen, self._credentials)
        if self.admin is None:
            return Addresses(public, ())
        if self.admin is self.public:
            named = zip(self._settings.listen, public, strict=True)
            shared = [bound for name, bound in named if name in self._settings.admin_listen]
            return Addresses(public, shared)
        return Addresses(public, listen(self.admin, self._settings.admin_listen, self._credentials))

    async def start(self) -> None:
        """Accepts connections from now on."""
        for server in self._servers:
            await server.start()

    async def stop(self, grace_s: float) -> None:
        """Closes every connection; calls that are not answered in time are cancelled."""
        for server in self._servers:
            await server.stop(grace_s)

    @property
    def _servers(self) -> Sequence[grpc.aio.Server]:
        separate = self.admin is not None and self.admin is not self.public
        return (self.public, self.admin) if separate and self.admin else (self.public,)
