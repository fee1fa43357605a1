"""One call of a client: request id, deadline, and conversion of its failures."""

import time
import uuid
from dataclasses import dataclass, field
from typing import Any

import grpc

from farpoint.errors import (
    DeadlineExceededError,
    FarpointError,
    InvalidArgumentError,
    UnavailableError,
    from_rpc_error,
)
from farpoint.results import Timings
from farpoint.v1 import sampling_pb2 as pb

REQUEST_ID_KEY = "x-request-id"
# 100 years; gRPC takes much larger ones for deadlines in the past.
_MAX_TIMEOUT_S = 3_155_760_000
# Texts of gRPC that mean no server was found, rather than one that is going away.
_NOT_REACHED = ("failed to connect", "connection refused", "resolution failed", "no such file")


@dataclass(frozen=True)
class CallContext:
    """Request id, deadline and start of one call of a client, which may make several RPCs."""

    timeout: float | None
    """Seconds from the start; None is without limit."""
    target: str = ""
    """Target of the client, for messages."""
    request_id: str = field(default_factory=lambda: uuid.uuid4().hex)
    started: float = field(default_factory=time.perf_counter)

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
        return {"timeout": self.remaining_s(), "metadata": self.metadata}

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
        if isinstance(failure, DeadlineExceededError):
            waited = time.perf_counter() - self.started
            failure.message += f" after {waited:.3g} s, the timeout is {self.timeout or 0:g} s"
        if isinstance(failure, UnavailableError) and self.target:
            text = failure.message.lower()
            if any(words in text for words in _NOT_REACHED) and "handshake" not in text:
                failure.message = (
                    f"no server answers at {self.target}: `make serve` in a checkout or `docker "
                    f"run -p 127.0.0.1:50051:50051 farpoint-server:cpu` starts one "
                    f"({failure.message})"
                )
        return failure


def start_call(
    timeout: float | None, default: float | None = None, target: str = ""
) -> CallContext:
    """A call that starts now, with its timeout in seconds or the client's."""
    timeout = default if timeout is None else timeout
    if timeout is not None and not 0 < timeout <= _MAX_TIMEOUT_S:
        raise InvalidArgumentError(
            f"timeout must be above 0 and at most {_MAX_TIMEOUT_S} seconds, or None, got {timeout}",
            field="timeout",
        )
    return CallContext(timeout, target)
