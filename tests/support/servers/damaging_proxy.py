"""A TCP proxy that damages what a server sends back, as a bad network card does."""

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress


@contextmanager
def damaging_proxy(target: str, damage: Callable[[bytes], bytes]) -> Iterator[str]:
    """The address of a proxy before "HOST:PORT"; `damage` is given each piece of the answers."""
    listener = socket.create_server(("127.0.0.1", 0))
    ends: list[socket.socket] = [listener]

    def pump(source: socket.socket, sink: socket.socket, change: Callable[[bytes], bytes]) -> None:
        with suppress(OSError):
            while piece := source.recv(1 << 16):
                sink.sendall(change(piece))
            sink.shutdown(socket.SHUT_WR)

    def serve() -> None:
        with suppress(OSError):
            while True:
                near, _ = listener.accept()
                host, _, port = target.rpartition(":")
                far = socket.create_connection((host, int(port)))
                ends.extend((near, far))
                for ways in ((near, far, bytes), (far, near, damage)):
                    threading.Thread(target=pump, args=ways, daemon=True).start()

    threading.Thread(target=serve, daemon=True).start()
    try:
        yield f"127.0.0.1:{listener.getsockname()[1]}"
    finally:
        for end in ends:
            with suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
            end.close()
