"""Counts each call, and each request in it, when it has ended."""

import asyncio
import re
import time
from collections.abc import Iterator
from contextlib import contextmanager

import grpc
import structlog

from farpoint_server.errors import ServiceError
from farpoint_server.metrics.instruments import Instruments
from farpoint_server.rpc import Context, on_end

CODES = {code.value[0]: code.name for code in grpc.StatusCode}
PHASES = ("queue", "compute")


class CallMeter:
    """The scope of `Around` that feeds the instruments."""

    def __init__(self, instruments: Instruments) -> None:
        self._instruments = instruments

    @contextmanager
    def __call__(self, rpc: str, context: Context, _: grpc.HandlerCallDetails) -> Iterator[None]:
        on_end.set(lambda seconds, error: self._count_request(rpc, seconds, error))
        arrived = time.monotonic()
        code = "OK"
        try:
            yield
        except BaseException as error:
            code = code_of(error, context)
            if code == "CANCELLED":
                self._instruments.refusals.labels("cancelled").inc()
            raise
        finally:
            self._instruments.rpcs.labels(rpc, code).inc()
            self._instruments.rpc_seconds.labels(rpc).observe(time.monotonic() - arrived)

    def _count_request(self, rpc: str, seconds: float, error: Exception | None) -> None:
        """A call has one request, or with SampleStream many."""
        if error is not None:
            self._instruments.refusals.labels(reason_of(error)).inc()
        else:
            self._count_phases(rpc, seconds)

    def _count_phases(self, rpc: str, seconds: float) -> None:
        """The phases are those of the log line, so that the two cannot differ."""
        fields = structlog.contextvars.get_contextvars()
        if "compute_ms" not in fields:
            return
        for phase in PHASES:
            spent = fields[f"{phase}_ms"] / 1e3
            seconds -= spent
            self._instruments.phase_seconds.labels(rpc, phase).observe(spent)
        self._instruments.phase_seconds.labels(rpc, "convert").observe(max(seconds, 0))


def code_of(error: BaseException, context: Context) -> str:
    """Name of the status of a call that ended with an exception."""
    if isinstance(error, asyncio.CancelledError):
        return "CANCELLED"
    # gRPC's exception says only that the call was aborted; a number in older versions.
    code: grpc.StatusCode | int = context.code()
    return code.name if isinstance(code, grpc.StatusCode) else CODES.get(code, "UNKNOWN")


def reason_of(error: Exception) -> str:
    """OverloadedError is "overloaded", EngineHungError "engine_hung"; a bug is "internal"."""
    if not isinstance(error, ServiceError):
        return "internal"
    name = type(error).__name__.removesuffix("Error")
    return re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name).lower()
