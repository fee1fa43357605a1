"""One call of a client: request id, deadline, and conversion of its failures."""

import time
import uuid
from dataclasses import dataclass, field
from typing import Any

import grpc

from farpoint._connection.proxies import describe_proxies, is_local
from farpoint.errors import (
    DeadlineExceededError,
    FarpointError,
    InvalidArgumentError,
    UnavailableError,
    UnimplementedError,
    from_rpc_error,
)
from farpoint.results import Timings
from farpoint.v1 import sampling_pb2 as pb

REQUEST_ID_KEY = "x-request-id"
# 100 years; gRPC takes much larger ones for deadlines in the past.
_MAX_TIMEOUT_S = 3_155_760_000
# Texts of gRPC for a call that got no connection, for a port or socket file without a server, and
# for an answer that is not HTTP/2.
_NOT_CONNECTED = ("failed to connect", "backends failing", "errors resolving", "resolution failed")
_REFUSED = ("connection refused", "no such file")
_OTHER_PROTOCOL = ("parsing http/2", "http1.x", "socket closed", "settings frame")


@dataclass(frozen=True)
class CallContext:
    """Request id, deadline and start of one call of a client, which may make several RPCs."""

    timeout: float | None
    """Seconds from the start; None is without limit."""
    target: str = ""
    """Target of the client, for messages."""
    request_id: str = field(default_factory=lambda: uuid.uuid4().hex)
    started: float = field(default_factory=time.perf_counter)
    waits: bool = False
    """Whether it waits for a server that is away."""

    @property
    def metadata(self) -> tuple[tuple[str, str], ...]:
        """Metadata of each RPC of the call."""
        return ((REQUEST_ID_KEY, self.request_id),)

    def remaining_s(self) -> float | None:
        """Seconds until the deadline, 0 once it has passed; None without one."""
        if self.timeout is None:
            return None
        return max(0.0, self.started + self.timeout - time.perf_counter())

    def rpc_options(self) -> dict[str, Any]:
        """Keyword arguments of a stub's method, with the remaining time of the call."""
        return {
            "timeout": self.remaining_s(),
            "metadata": self.metadata,
            "wait_for_ready": self.waits,
        }

    def read_timings(self, timings: pb.Timings) -> Timings:
        """The server's measurements, and the rest of the time since the call started."""
        total_ms = (time.perf_counter() - self.started) * 1e3
        return Timings(
            queue_ms=timings.queue_ms,
            compute_ms=timings.compute_ms,
            server_ms=timings.server_ms,
            wire_ms=max(0.0, total_ms - timings.server_ms),
            total_ms=total_ms,
        )

    def failure(self, error: grpc.RpcError) -> FarpointError:
        """The exception for a failed RPC, with hints from the client's side."""
        failure = from_rpc_error(error, self.request_id)
        if isinstance(failure, UnimplementedError):
            failure.message += f" (at {self.target})"
        if isinstance(failure, DeadlineExceededError):
            waited = time.perf_counter() - self.started
            limit = "none" if self.timeout is None else f"{self.timeout:g} s"
            failure.message += f" after {waited:.3g} s, the timeout is {limit}"
        if isinstance(failure, UnavailableError):
            failure.message = self._seen(failure.message)
        if isinstance(failure, (DeadlineExceededError, UnavailableError)):
            failure.message += describe_proxies(self.target)
        return failure

    def _seen(self, text: str) -> str:
        """gRPC's text for a call without a connection, after what it shows; others as they are."""

        def names(words: tuple[str, ...]) -> bool:
            return any(word in text.lower() for word in words)

        if not names(_NOT_CONNECTED):
            return text
        if names(_REFUSED) and is_local(self.target):
            return (
                f"no server answers at {self.target}: `make serve` in a checkout or `docker run "
                f"-p 127.0.0.1:50051:50051 farpoint-server:cpu` starts one ({text})"
            )
        hint = ""
        if names(_OTHER_PROTOCOL):
            hint = ", which took the connection and spoke no gRPC: another port, or TLS?"
        return f"no connection to {self.target}{hint} ({text})"


def start_call(
    timeout: float | None,
    default: float | None = None,
    target: str = "",
    waits: bool = False,
) -> CallContext:
    """A call that starts now, with its timeout in seconds or the client's."""
    timeout = default if timeout is None else timeout
    if timeout is not None and not 0 < timeout <= _MAX_TIMEOUT_S:
        raise InvalidArgumentError(
            f"timeout must be above 0 and at most {_MAX_TIMEOUT_S} seconds, or None, got {timeout}",
            field="timeout",
        )
    return CallContext(timeout, target, waits=waits)
