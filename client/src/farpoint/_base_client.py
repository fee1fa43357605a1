"""Base of both clients: arguments, the channel that opens at the first call, pickling."""

import asyncio
import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar
from weakref import WeakSet

import grpc

from farpoint._connection.call import CallContext, start_call
from farpoint._connection.channel import DEFAULT_BUDGET, check_retry_budget
from farpoint._connection.security import PathLike, Security, Tls, read_security
from farpoint._connection.shared_memory import SharedMemory
from farpoint._connection.targets import DEFAULT_TARGET, DEFAULT_TIMEOUT_S, Target, checked_target
from farpoint._rpcs.calls import Stubs
from farpoint.errors import (
    CancelledError,
    FailedPreconditionError,
    FarpointError,
    UnavailableError,
)

Channel = TypeVar("Channel", grpc.Channel, grpc.aio.Channel)


@dataclass(frozen=True)
class Arguments:
    """Arguments of a client's constructor."""

    target: str
    timeout: float | None
    tls: bool | PathLike | Tls
    token: str | None = field(repr=False)
    credentials: grpc.ChannelCredentials | None
    shared_memory: str | None
    checksums: bool | None
    retry_budget: int


class BaseClient(Generic[Channel]):
    """State of a client, in this process and in others.

    A pickled client holds its arguments and reconnects where it is unpickled.
    """

    _open: Callable[[str, Security, int], Channel]

    def __init__(
        self,
        target: Target = DEFAULT_TARGET,
        *,
        timeout: float | None = DEFAULT_TIMEOUT_S,
        tls: bool | PathLike | Tls = False,
        token: str | None = None,
        credentials: grpc.ChannelCredentials | None = None,
        shared_memory: str | None = None,
        checksums: bool | None = None,
        retry_budget: int = DEFAULT_BUDGET,
    ) -> None:
        target = checked_target(target)
        self._arguments = Arguments(
            target=target,
            timeout=timeout,
            tls=tls,
            token=token,
            credentials=credentials,
            shared_memory=shared_memory,
            checksums=checksums,
            retry_budget=retry_budget,
        )
        check_retry_budget(retry_budget)
        self._timeout = timeout
        self._security = read_security(target, tls, token, credentials)
        is_plain = self._security.credentials is None
        self._checksums = is_plain if checksums is None else checksums
        self._is_closed = False
        self._begin()

    @property
    def target(self) -> str:
        """Address of the server, or of several, separated by commas."""
        return self._arguments.target

    def _begin(self) -> None:
        """Sets the state of a client without a connection."""
        path = self._arguments.shared_memory
        self._memory = None if path is None else SharedMemory(path)
        self._message_limit: int | None = None
        self._channel: Channel | None = None
        self._stubs: Stubs | None = None
        self._has_answer = False
        self._lock = threading.Lock()

    def _open_stubs(self) -> Stubs:
        """Stubs on the channel, which is opened if necessary."""
        with self._lock:
            if self._is_closed:
                raise _closed()
            if self._stubs is None:
                _forks.check()
                self._channel = type(self)._open(
                    self._arguments.target, self._security, self._arguments.retry_budget
                )
                self._stubs = Stubs(self._channel)
                _forks.clients.add(self)
                _forks.has_opened = True
            return self._stubs

    def _start(self, timeout: float | None) -> CallContext:
        """The context of a call that starts now.

        Once a server has answered, calls wait for it if it is away, as while it restarts; before,
        the target may be wrong, and they fail.
        """
        return start_call(timeout, self._timeout, self.target, self._has_answer)

    def _start_stream(self, timeout: float | None) -> CallContext:
        """Like `_start`, unlimited by default."""
        return start_call(timeout, None, self.target, self._has_answer)

    @contextmanager
    def _calling(self, context: CallContext) -> Iterator[None]:
        """A block that makes a call of gRPC; what it raises becomes an exception of this package.

        gRPC says CANCELLED for a client that is closed, and for a server that ends.
        """
        try:
            yield
        except grpc.RpcError as error:
            failure = context.failure(error)
            if isinstance(failure, CancelledError):
                failure = self._ended(context)
            raise failure from error
        except FarpointError:
            raise
        except (ValueError, grpc.aio.UsageError) as error:  # of a call on a channel that is closed
            if self._is_closed:
                raise _closed() from error
            raise
        except asyncio.CancelledError as error:  # what grpc.aio raises in every call of a channel
            if self._is_closed and not _is_task_cancelled():
                raise self._ended(context) from error
            raise
        self._has_answer = True

    def _ended(self, context: CallContext) -> FarpointError:
        """The exception for a call that its caller did not cancel."""
        if self._is_closed:
            text = "the client was closed during the call"
            return CancelledError(text, request_id=context.request_id)
        text = "the server ended the call before it answered"
        return UnavailableError(text, request_id=context.request_id)

    def _end(self) -> Channel | None:
        """The channel to close, if one was opened; the client takes no more calls."""
        with self._lock:
            self._is_closed = True
            channel, self._channel, self._stubs = self._channel, None, None
            _forks.clients.discard(self)
        if self._memory is not None:
            self._memory.close()
        return channel

    def __getstate__(self) -> Arguments:
        if self._arguments.credentials is not None:
            raise TypeError(
                "a client with gRPC credentials cannot be pickled: "
                "give tls and token instead, or make a client in each process"
            )
        return self._arguments

    def __setstate__(self, arguments: Arguments) -> None:
        self.__init__(**vars(arguments))  # type: ignore[misc]


def _closed() -> FailedPreconditionError:
    return FailedPreconditionError("the client is closed: make a new one")


def _is_task_cancelled() -> bool:
    """Whether the running task was cancelled; before Python 3.11, which cannot tell, True."""
    cancelling = getattr(asyncio.current_task(), "cancelling", None)
    return cancelling is None or cancelling() > 0


class _Forks:
    """The gRPC state that a forked child inherits from its parent."""

    def __init__(self) -> None:
        self.clients: WeakSet[BaseClient[Any]] = WeakSet()
        """Clients with an open channel."""
        self.has_opened = False
        """Whether a channel was ever opened: gRPC's threads may outlive all channels."""
        self.inherited: list[Any] = []
        """Channels of the parent, kept forever: gRPC must not clean them up in a child."""
        self.is_broken = False
        """Whether a call in this process could hang: gRPC's threads are not in a forked child."""

    def after_fork_in_child(self) -> None:
        """Resets the clients: channels and shared memory belong to the parent."""
        self.is_broken = self.has_opened
        for client in list(self.clients):
            self.inherited.append((client._channel, client._stubs))
            if client._memory is not None:
                client._memory.forget()
            client._begin()
        self.clients.clear()

    def check(self) -> None:
        """Raises FailedPreconditionError if a call could hang."""
        if self.is_broken:
            raise FailedPreconditionError(
                "this process was forked while gRPC was in use, and gRPC cannot work in it: start "
                'processes by "spawn" or "forkserver" (DataLoader: multiprocessing_context='
                '"spawn"), or fork before the first call'
            )


_forks = _Forks()
if hasattr(os, "register_at_fork"):  # not on Windows
    os.register_at_fork(after_in_child=_forks.after_fork_in_child)
