"""Shared memory as the settings want it."""

from farpoint_server.codec.shared_memory import Regions
from farpoint_server.config.settings import Settings
from farpoint_server.transport.shared_memory_listener import Listener


class Sharing:
    """Regions and the socket on which they come; without an address there are none.

    Attributes:
        regions: What callers share now.
        address: As in the settings.
    """

    def __init__(self, settings: Settings) -> None:
        self.regions = Regions(
            settings.max_shared_memory_bytes,
            settings.max_bytes_in_flight,
            settings.overload_retry_ms,
        )
        self.address = settings.shared_memory_listen
        self._max_connections = settings.max_connections
        self._listener: Listener | None = None

    def start(self) -> None:
        """Takes regions from now on.

        Raises:
            StartError: the address cannot be bound, or this system has no such memory.
        """
        if self.address is not None:
            path = self.address.removeprefix("unix:")
            self._listener = Listener(path, self.regions, self._max_connections)
            self._listener.start()

    def stop(self) -> None:
        """Lets go of every region."""
        if self._listener is not None:
            self._listener.stop()
