"""Calls of two processes to each other over a Unix socket; what one turn of a loop sends is one."""

import asyncio
import socket
import struct
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import TypeVar

import structlog

from farpoint_server.compute.arrays import Arrangement, Array
from farpoint_server.compute.remote.region import Bytes, DamagedError, write
from farpoint_server.errors import DeviceFailedError, ServiceError, pack_error, unpack_error

# Bytes of the payload, number of the call, kind.
HEAD = struct.Struct("<IIB")
RUN, ASK, CANCEL, NOTE, ANSWER, ERROR = range(1, 7)
READ_BYTES = 1 << 18
# Of a record: descriptions, never arrays.
MAX_BYTES = 1 << 28
# Calls of the other side that are not answered.
MAX_CALLS = 1 << 16
# More bytes are copied on another thread.
INLINE_BYTES = 1 << 20
T = TypeVar("T")
Reply = Callable[[bytes, Exception | None], object]
log = structlog.get_logger("farpoint.compute")


class Channel:
    """One end of a connection.

    A call is a record of its kind with a number; it is answered by exactly one record ANSWER or
    ERROR with that number, also if it is cancelled. A NOTE is not answered.

    Args:
        end: Connected.
        serve: Answers a record of the other side, given its kind and payload.
        on_end: Called when the other side has gone, or has sent a damaged record.
        note: Given the payload of each NOTE; without it, one is damaged.
    """

    def __init__(
        self,
        end: socket.socket,
        serve: Callable[[int, bytes], Awaitable[bytes]],
        on_end: Callable[[], object],
        note: Callable[[bytes], object] | None = None,
    ) -> None:
        end.setblocking(False)
        self._socket, self._serve, self._note, self._on_end = end, serve, note, on_end
        self._loop = asyncio.get_running_loop()
        self._number = 0
        self._replies: dict[int, Reply] = {}
        self._serving: dict[int, asyncio.Future[bytes]] = {}
        self._in, self._out = bytearray(), bytearray()
        self._is_flushing = False
        self.is_open = True
        self._loop.add_reader(end, self._read)

    def begin(self, kind: int, payload: bytes, reply: Reply) -> int:
        """Begins a call, whose `reply` is given the answer or an error once; returns its number."""
        self._number = number = (self._number + 1) & 0xFFFFFFFF
        if not self.is_open:
            self._loop.call_soon(reply, b"", gone())
            return number
        self._replies[number] = reply
        self.send(kind, number, payload)
        return number

    async def ask(self, payload: bytes) -> bytes:
        """The answer to an ASK; raises what the other side raised."""
        answer: asyncio.Future[bytes] = self._loop.create_future()
        number = self.begin(ASK, payload, partial(_settle, answer))
        try:
            return await answer
        except asyncio.CancelledError:
            self.send(CANCEL, number)
            raise

    def send(self, kind: int, number: int = 0, payload: bytes = b"") -> None:
        """Sends a record at the end of this turn of the loop."""
        if not self.is_open:
            return
        self._out += HEAD.pack(len(payload), number, kind)
        self._out += payload
        if not self._is_flushing:
            self._is_flushing = True
            self._loop.call_soon(self._flush)

    def close(self) -> None:
        """Ends the connection: calls of this side fail, those of the other side are cancelled."""
        if not self.is_open:
            return
        self.is_open = False
        self._loop.remove_reader(self._socket)
        self._loop.remove_writer(self._socket)
        self._socket.close()
        replies, self._replies = self._replies, {}
        for reply in replies.values():
            reply(b"", gone())
        for answer in [*self._serving.values()]:
            answer.cancel()
        self._on_end()

    def _flush(self) -> None:
        if not self.is_open:
            return
        try:
            del self._out[: self._socket.send(self._out)]
        except BlockingIOError:
            pass
        except OSError:
            self.close()
            return
        self._is_flushing = bool(self._out)
        if self._out:  # the other side does not read as fast
            self._loop.add_writer(self._socket, self._flush)
        else:
            self._loop.remove_writer(self._socket)

    def _read(self) -> None:
        try:
            data = self._socket.recv(READ_BYTES)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if not data:
            self.close()
            return
        self._in += data
        begin = 0
        try:
            while begin + HEAD.size <= len(self._in):
                size, number, kind = HEAD.unpack_from(self._in, begin)
                if size > MAX_BYTES:
                    raise DamagedError(f"a record of {size} bytes")
                end = begin + HEAD.size + size
                if end > len(self._in):
                    break
                self._receive(kind, number, bytes(self._in[begin + HEAD.size : end]))
                begin = end
        except Exception as error:
            self._end_damaged(error)
            return
        del self._in[:begin]

    def _receive(self, kind: int, number: int, payload: bytes) -> None:
        if kind in (ANSWER, ERROR):
            reply = self._replies.pop(number, None)
            if reply is None:
                raise DamagedError("an answer to no call")
            reply(payload, unpack_error(payload) if kind == ERROR else None)
        elif kind in (RUN, ASK):
            if number in self._serving or len(self._serving) >= MAX_CALLS:
                raise DamagedError("a call that is one too many")
            answer = asyncio.ensure_future(self._serve(kind, payload))
            self._serving[number] = answer
            answer.add_done_callback(partial(self._answer, number))
        elif kind == CANCEL:
            # It may have been answered meanwhile.
            if number in self._serving:
                self._serving[number].cancel()
        elif kind == NOTE and self._note is not None:
            self._note(payload)
        else:
            raise DamagedError(f"a record of kind {kind}")

    def _answer(self, number: int, answer: "asyncio.Future[bytes]") -> None:
        del self._serving[number]
        error = asyncio.CancelledError() if answer.cancelled() else answer.exception()
        if isinstance(error, DamagedError):
            self._end_damaged(error)
        elif error is not None:
            if not isinstance(error, ServiceError | asyncio.CancelledError):
                log.error("call failed", exc_info=error)
            self.send(ERROR, number, pack_error(error))
        else:
            self.send(ANSWER, number, answer.result())

    def _end_damaged(self, error: Exception) -> None:
        log.error("damaged record", reason=repr(error))
        self.close()


async def finish(step: "asyncio.Future[T]") -> tuple[T, bool]:
    """The result of a step that uses shared memory, and whether its caller was cancelled meanwhile.

    A step that went on alone would use a block that belongs to another call by then.
    """
    is_cancelled = False
    while not step.done():
        try:
            await asyncio.wait([step])
        except asyncio.CancelledError:  # noqa: PERF203
            is_cancelled = True
    return step.result(), is_cancelled


async def copy_in(block: Bytes, arrays: Sequence[Array], arranged: Arrangement) -> None:
    """Copies arrays into a block; if it is cancelled, it raises once nothing writes there.

    Args:
        block: Large enough.
        arrays: What it gets.
        arranged: By `arrange`.
    """
    if arranged.size <= INLINE_BYTES:
        write(block, arrays, arranged)
        return
    writing = asyncio.to_thread(write, block, arrays, arranged)
    _, is_cancelled = await finish(asyncio.ensure_future(writing))
    if is_cancelled:
        raise asyncio.CancelledError


def gone() -> DeviceFailedError:
    """The error of calls that the other process has not answered."""
    return DeviceFailedError("the engine ended; another one is started")


def _settle(answer: "asyncio.Future[bytes]", payload: bytes, error: Exception | None) -> None:
    if answer.done():
        return
    if error is None:
        answer.set_result(payload)
    else:
        answer.set_exception(error)
