"""The slots of open calls, by kind of service, and the log of refused calls."""

import time

import structlog

from farpoint_server.errors import TooManyCallsError
from farpoint_server.scheduling.admission import CallSlots

# All callers, one caller. A fleet behind one address may watch the health of a few dozen channels.
CHECKS = (256, 64)
WATCHES = (192, 64)
ADMIN = (64, 32)
ADMIN_RPCS = ("farpoint.v1.AdminService/", "inference.GRPCInferenceService/RepositoryModel")
LOG_INTERVAL_S = 1.0
log = structlog.get_logger("farpoint.rpc")


class CallLimits:
    """The slots of each kind of call: requests, administration, checks, and watches.

    Health and reflection need no token, so they have slots of their own, and so has an operator who
    looks into a full server. Watches last, as do streams of reflection: they take none of the slots
    of checks, which end at once.

    Args:
        total: Requests open at a time.
        per_caller: Those of one caller; None for half of them.
        retry_ms: Milliseconds that a refused caller is told to wait.
    """

    def __init__(self, total: int, per_caller: int | None, retry_ms: int) -> None:
        half = max(1, total // 2)
        self._requests = CallSlots(total, per_caller or half, retry_ms)
        self._admin = CallSlots(*ADMIN, retry_ms)
        self._checks = CallSlots(*CHECKS, retry_ms)
        self._watches = CallSlots(*WATCHES, retry_ms)

    def of(self, rpc: str) -> CallSlots:
        """The slots of "package.Service/Method"."""
        if rpc.startswith(ADMIN_RPCS):
            return self._admin
        if rpc.startswith("grpc."):
            return self._checks if rpc.endswith("Health/Check") else self._watches
        return self._requests


class RefusalLog:
    """Logs refused calls: a line a second at most, with their number since the line before."""

    def __init__(self) -> None:
        self._count = 0
        self._logged = -LOG_INTERVAL_S

    def add(self, error: TooManyCallsError) -> None:
        """Counts a refused call, and logs it if none was logged in this second."""
        self._count += 1
        now = time.monotonic()
        if now - self._logged >= LOG_INTERVAL_S:
            log.warning("calls rejected", calls=self._count, error=str(error))
            self._count, self._logged = 0, now
