"""A gRPC peer of a few HTTP/2 frames that reads only on demand, as no library does."""

import socket
import struct
from collections import Counter
from collections.abc import Iterator

DATA, HEADERS, RST_STREAM, SETTINGS, PING, GOAWAY, WINDOW_UPDATE = 0, 1, 3, 4, 6, 7, 8
END_STREAM, ACK, END_HEADERS = 1, 1, 4
INITIAL_WINDOW_SIZE = 4
CANCEL = 8
CHUNK = 16384
PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"


class RawPeer:
    """A connection to HOST:PORT in plain text that is up, whose server may send no answer."""

    def __init__(self, address: str) -> None:
        host, _, port = address.rpartition(":")
        self.socket = socket.create_connection((host, int(port)))
        self._bytes = self.socket.makefile("rb")
        self._next_stream = 1
        self._stream_window = 65535
        self._used: Counter[int] = Counter({0: 0})
        settings = struct.pack(">HI", INITIAL_WINDOW_SIZE, 0)
        self.socket.sendall(PREFACE + frame(SETTINGS, 0, 0, settings))
        next(kind for kind, flags, _, _ in self.frames() if (kind, flags) == (SETTINGS, 0))

    def begin(self, method: str) -> int:
        """Sends the headers of a call of "/package.Service/Method"; its stream."""
        stream, self._next_stream = self._next_stream, self._next_stream + 2
        fields = (
            *((":method", "POST"), (":scheme", "http"), (":path", method)),
            *((":authority", "localhost"), ("te", "trailers")),
            ("content-type", "application/grpc"),
        )
        block = b"".join(b"\0" + _text(name) + _text(value) for name, value in fields)
        self.socket.sendall(frame(HEADERS, END_HEADERS, stream, block))
        return stream

    def send(self, stream: int, message: bytes, *, end: bool = True) -> None:
        """Sends a message, as fast as the server lets it."""
        data = b"\0" + struct.pack(">I", len(message)) + message
        frames = self.frames()
        for at in range(0, len(data), CHUNK):
            part = data[at : at + CHUNK]
            while self._room(stream) < len(part):
                next(frames)
            self._used[0] += len(part)
            self._used[stream] += len(part)
            last = end and at + CHUNK >= len(data)
            self.socket.sendall(frame(DATA, END_STREAM if last else 0, stream, part))

    def reset(self, stream: int) -> None:
        """Breaks a call off."""
        self.socket.sendall(frame(RST_STREAM, 0, stream, struct.pack(">I", CANCEL)))

    def frames(self) -> Iterator[tuple[int, int, int, bytes]]:
        """Kind, flags, stream and payload of what arrives until the end; pings are answered."""
        try:
            while head := self._bytes.read(9):
                kind, flags, stream = struct.unpack(">BBI", head[3:])
                payload = self._bytes.read(int.from_bytes(head[:3], "big"))
                self._follow(kind, flags, stream, payload)
                yield kind, flags, stream, payload
        except ConnectionError:
            return

    def close(self) -> None:
        self._bytes.close()
        self.socket.close()

    def _follow(self, kind: int, flags: int, stream: int, payload: bytes) -> None:
        if (kind, flags) == (PING, 0):
            self.socket.sendall(frame(PING, ACK, 0, payload))
        elif (kind, flags) == (SETTINGS, 0):
            pairs = dict(struct.iter_unpack(">HI", payload))
            self._stream_window = pairs.get(INITIAL_WINDOW_SIZE, self._stream_window)
            self.socket.sendall(frame(SETTINGS, ACK, 0, b""))
        elif kind == WINDOW_UPDATE:
            self._used[stream] -= int.from_bytes(payload, "big")

    def _room(self, stream: int) -> int:
        return min(65535 - self._used[0], self._stream_window - self._used[stream])


def frame(kind: int, flags: int, stream: int, payload: bytes) -> bytes:
    return len(payload).to_bytes(3, "big") + struct.pack(">BBI", kind, flags, stream) + payload


def _text(text: str) -> bytes:
    """HPACK's plain string, of less than 127 bytes."""
    return bytes([len(text)]) + text.encode()
