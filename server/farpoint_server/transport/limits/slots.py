"""Limits on the open calls of one caller and of all, by kind of service."""

import time
from collections import Counter

import structlog

from farpoint_server.errors import TooManyCallsError
from farpoint_server.request_context import TOKEN_PREFIX

# All callers, one caller. A fleet behind one address may watch the health of a few dozen channels.
PROBES = (256, 64)
ADMIN = (64, 32)
LOG_INTERVAL_S = 1.0
log = structlog.get_logger("farpoint.rpc")


class CallSlots:
    """Counts the open calls of one kind.

    A caller with a token is refused only for its own share: where all slots are taken, that is the
    slots divided by the callers, so that nobody's calls keep it out. There are as many tokens as
    the operator has given out; addresses are as many as somebody likes, so callers without tokens
    are refused where all slots are taken.

    Args:
        total: Calls of all callers.
        per_caller: Calls of one caller.
        retry_ms: Milliseconds that a refused caller is told to wait.
    """

    def __init__(self, total: int, per_caller: int, retry_ms: int) -> None:
        self._total = total
        self._per_caller = per_caller
        self._retry_ms = retry_ms
        self._open: Counter[str] = Counter()
        self._count = 0

    def enter(self, caller: str) -> None:
        """Takes a slot; raises TooManyCallsError where the caller has no room."""
        held = self._open.get(caller, 0)
        if held >= self._per_caller:
            raise self._refusal(f"the caller has {held} calls open of at most {self._per_caller}")
        if self._count >= self._total:
            share = max(1, self._total // (len(self._open) + (held == 0)))
            if not caller.startswith(TOKEN_PREFIX) or held >= share:
                raise self._refusal(f"all {self._total} calls of the server are taken")
        self._open[caller] = held + 1
        self._count += 1

    def leave(self, caller: str) -> None:
        """Gives a slot back."""
        self._count -= 1
        if self._open[caller] == 1:
            del self._open[caller]
        else:
            self._open[caller] -= 1

    def _refusal(self, reason: str) -> TooManyCallsError:
        return TooManyCallsError(reason, self._retry_ms)


class CallLimits:
    """The slots of each kind of call: requests, administration, and health with reflection.

    Whoever probes health needs no token, so its calls have slots of their own, and so have those of
    an operator who looks into a full server.

    Args:
        total: Requests open at a time.
        per_caller: Those of one caller; None for half of them.
        retry_ms: Milliseconds that a refused caller is told to wait.
    """

    def __init__(self, total: int, per_caller: int | None, retry_ms: int) -> None:
        half = max(1, total // 2)
        self._requests = CallSlots(total, per_caller or half, retry_ms)
        self._admin = CallSlots(*ADMIN, retry_ms)
        self._probes = CallSlots(*PROBES, retry_ms)

    def of(self, rpc: str) -> CallSlots:
        """The slots of "package.Service/Method"."""
        if rpc.startswith("farpoint.v1.AdminService/"):
            return self._admin
        return self._probes if rpc.startswith("grpc.") else self._requests


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
            log.warning("calls refused", calls=self._count, error=str(error))
            self._count, self._logged = 0, now
