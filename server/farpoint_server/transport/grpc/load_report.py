"""Load reports (ORCA), by which clients choose among servers."""

import struct
import time
from collections.abc import Callable
from typing import TypeAlias

LOAD_KEY = "endpoint-load-metrics-bin"
# Longer than a batch, so that one does not look like a full server.
PERIOD_S = 0.5
# Fields of a report, doubles each, with their tags as they are on the wire.
_CALLS_PER_S, _ERRORS_PER_S, _UTILIZATION = b"\x31", b"\x39", b"\x49"

Trailers: TypeAlias = tuple[tuple[str, str | bytes], ...]


class LoadReport:
    """Calls, failures and use of one process over the last half second, reported in each answer.

    An OrcaLoadReport (xds.data.orca.v3) as gRFC A51 has it; grpcio offers nothing to make one.
    gRPC's policy `weighted_round_robin` gives a server calls in proportion to calls a second over
    utilization, errors counted against it.

    Its utilization is the share of its `cores` that it uses, or of the time that its engines are at
    a batch if that is more, as on a GPU.

    Args:
        busy_s: Seconds that engines have been at batches, of the least busy device.
        cpu_s: Seconds of all threads.
    """

    def __init__(
        self,
        busy_s: Callable[[], float],
        cores: int,
        clock: Callable[[], float] = time.monotonic,
        cpu_s: Callable[[], float] = time.process_time,
    ) -> None:
        self._busy_s, self._cores = busy_s, cores
        self._clock, self._cpu_s = clock, cpu_s
        self._began, self._busy, self._cpu = clock(), busy_s(), cpu_s()
        self._calls = self._errors = 0
        self._trailers: Trailers = ()

    def count(self) -> Trailers:
        """Counts an arrived call and returns the report of the last period, if any."""
        self._calls += 1
        if (now := self._clock()) >= self._began + PERIOD_S:
            self._measure(now)
        return self._trailers

    def count_error(self, *, is_here: bool) -> Trailers:
        """Counts a call that failed, if it might succeed on another server."""
        self._errors += is_here
        return self._trailers

    def _measure(self, now: float) -> None:
        busy, cpu, passed = self._busy_s(), self._cpu_s(), now - self._began
        used = max((cpu - self._cpu) / self._cores, busy - self._busy) / passed
        report = [(_CALLS_PER_S, self._calls / passed), (_UTILIZATION, used)]
        if self._errors:
            report.append((_ERRORS_PER_S, self._errors / passed))
        packed = b"".join(tag + struct.pack("<d", value) for tag, value in report)
        self._trailers = ((LOAD_KEY, packed),)
        self._began, self._busy, self._cpu = now, busy, cpu
        self._calls = self._errors = 0
