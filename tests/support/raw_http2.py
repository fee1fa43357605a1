"""A gRPC peer of a few HTTP/2 frames, to do what no library does: it reads only when told to."""

import socket
import struct
from collections.abc import Iterator

DATA, HEADERS, RST_STREAM, SETTINGS, PING = 0, 1, 3, 4, 6
END_STREAM, ACK, END_HEADERS = 1, 1, 4
INITIAL_WINDOW_SIZE = 4
CANCEL = 8


class RawPeer:
    """A connection in plain text that is up, with `window` bytes of room for each answer."""

    def __init__(self, address: str, window: int = 0) -> None:
        if address.startswith("unix:"):
            self.socket = socket.socket(socket.AF_UNIX)
            self.socket.connect(address.removeprefix("unix:"))
        else:
            host, _, port = address.rpartition(":")
            self.socket = socket.create_connection((host, int(port)))
        self._next_stream = 1
        self._bytes = self.socket.makefile("rb")
        settings = struct.pack(">HI", INITIAL_WINDOW_SIZE, window)
        self.socket.sendall(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + frame(SETTINGS, 0, 0, settings))
        for kind, flags, _, _ in self.frames():
            if (kind, flags) == (SETTINGS, 0):
                break
        self.socket.sendall(frame(SETTINGS, ACK, 0, b""))

    def begin(self, method: str, *headers: tuple[str, str]) -> int:
        """Sends the headers of a call to "/package.Service/Method"; its stream."""
        stream, self._next_stream = self._next_stream, self._next_stream + 2
        fields = (
            (":method", "POST"),
            (":scheme", "http"),
            (":path", method),
            (":authority", "localhost"),
            ("te", "trailers"),
            ("content-type", "application/grpc"),
            *headers,
        )
        block = b"".join(b"\0" + _text(name) + _text(value) for name, value in fields)
        self.socket.sendall(frame(HEADERS, END_HEADERS, stream, block))
        return stream

    def send(self, stream: int, message: bytes, *, end: bool = True) -> None:
        """Sends a message; up to 64 KiB in all need no window of the server's."""
        data = b"\0" + struct.pack(">I", len(message)) + message
        parts = [data[i : i + 16384] for i in range(0, len(data), 16384)]
        for part in parts[:-1]:
            self.socket.sendall(frame(DATA, 0, stream, part))
        self.socket.sendall(frame(DATA, END_STREAM if end else 0, stream, parts[-1]))

    def reset(self, stream: int) -> None:
        """Breaks a call off."""
        self.socket.sendall(frame(RST_STREAM, 0, stream, struct.pack(">I", CANCEL)))

    def frames(self) -> Iterator[tuple[int, int, int, bytes]]:
        """Kind, flags, stream and payload of what arrives until the end; pings are answered."""
        try:
            while head := self._bytes.read(9):
                size = int.from_bytes(head[:3], "big")
                kind, flags, stream = struct.unpack(">BBI", head[3:])
                payload = self._bytes.read(size)
                if (kind, flags) == (PING, 0):
                    self.socket.sendall(frame(PING, ACK, 0, payload))
                yield kind, flags, stream, payload
        except ConnectionError:
            return

    def close(self) -> None:
        self._bytes.close()
        self.socket.close()


def frame(kind: int, flags: int, stream: int, payload: bytes) -> bytes:
    return len(payload).to_bytes(3, "big") + struct.pack(">BBI", kind, flags, stream) + payload


def _text(text: str) -> bytes:
    """HPACK's plain string of up to 16 000 characters."""
    data = text.encode()
    if len(data) < 127:
        return bytes([len(data)]) + data
    rest = len(data) - 127
    return bytes([127, 128 | (rest & 127), rest >> 7]) + data
