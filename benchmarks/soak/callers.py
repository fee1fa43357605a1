"""The callers of a soak: each makes one call after the other, of a kind drawn by chance."""

import asyncio
import json
import random
import time
from collections.abc import Awaitable, Callable, Mapping
from http import HTTPStatus
from typing import Any

import grpc
from google.protobuf.message import DecodeError
from google.rpc import error_details_pb2, status_pb2

from benchmarks.service.load import HttpPeer
from benchmarks.soak.cases import Cases, broken_cases
from benchmarks.soak.samples import SampleCase
from benchmarks.soak.server import SoakServer
from benchmarks.soak.tally import Tally
from farpoint.v1 import sampling_pb2 as pb

# Status of calls when the server ends or begins; one that it cancels is wrong.
INTERRUPTED = grpc.StatusCode.UNAVAILABLE
# grpc.aio's status of a call that ends while it sends (grpc/grpc#36066).
BROKEN_WRITE = grpc.StatusCode.INTERNAL, "Internal error from Core"
PATIENCE_S = 60.0
SERVICE = "/farpoint.v1.SamplingService/"
# A model that is loaded and unloaded all the time.
COMING = "coming"
Code = grpc.StatusCode
REPEATED = {
    **{"maxAttempts": 2, "initialBackoff": "0.1s", "maxBackoff": "1s", "backoffMultiplier": 2},
    "retryableStatusCodes": ["CANCELLED"],
}
OPTIONS = (
    ("grpc.max_receive_message_length", -1),
    # One attempt, one status; but what gRPC cancels at the end of a drain, which no handler has
    # seen, is repeated, as docs/clients.md has it.
    (
        "grpc.service_config",
        json.dumps({"methodConfig": [{"name": [{}], "retryPolicy": REPEATED}]}),
    ),
    ("grpc.use_local_subchannel_pool", 1),
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.min_reconnect_backoff_ms", 100),
    ("grpc.max_reconnect_backoff_ms", 500),
)
IsRight = Callable[[bytes], bool]


def retry_after_s(error: grpc.aio.AioRpcError) -> float | None:
    """The time to retry after, of a refusal; None if it names none."""
    packed = next(
        (value for key, value in error.trailing_metadata() if key == "grpc-status-details-bin"),
        b"",
    )
    info = error_details_pb2.RetryInfo()
    for detail in status_pb2.Status.FromString(packed).details:
        if detail.Unpack(info):
            return info.retry_delay.ToMilliseconds() / 1e3
    return None


def judge_streamed(
    answer: pb.SampleStreamResponse, case: SampleCase, expected: int
) -> tuple[str, str]:
    """The outcome of one request of a stream whose index is `expected`, and what is wrong."""
    if answer.HasField("error"):
        if answer.error.code == grpc.StatusCode.RESOURCE_EXHAUSTED.value[0]:
            return "refused", ""
        return "wrong", f"status {answer.error.code}: {answer.error.message}"
    if answer.request_index != expected:
        return "wrong", f"request {answer.request_index} where {expected} was due"
    if not case.is_right(answer.response):
        return "wrong", f"request {expected} of a stream"
    return "answered", ""


class Caller:
    """One of many, with its own chances; `channel` may be shared with others."""

    def __init__(
        self,
        number: int,
        channel: grpc.aio.Channel,
        cases: Cases,
        tally: Tally,
        server: SoakServer,
        patience_s: float = PATIENCE_S,
    ) -> None:
        self._number, self._patience_s = number, patience_s
        self._chance = random.Random(number)
        self._cases, self._tally, self._server = cases, tally, server
        self._broken = broken_cases(cases.small[0])
        self._unary = {name: channel.unary_unary(SERVICE + name) for name in ("Sample", "Encode")}
        self._upload = channel.stream_unary(SERVICE + "SampleLarge")
        self._stream = channel.stream_stream(SERVICE + "SampleStream")
        self._peer = HttpPeer()
        self._made = 0
        self._chances: dict[Callable[[], Awaitable[None]], int] = {
            self.call_small: 60,
            self.call_large: 4,
            self.call_upload: 2,
            self.call_stream: 6,
            self.call_encode: 2,
            self.call_packed: 8,
            self.call_http: 12,
            self.call_cancelled: 8,
            self.call_expired: 8,
            self.call_broken: 8,
        }

    async def run(self, is_over: Callable[[], bool]) -> None:
        """Calls until it is over."""
        while not is_over():
            (call,) = self._chance.choices(list(self._chances), list(self._chances.values()))
            await call()
        self._peer.close()

    async def call_small(self) -> None:
        await self._sample("small", self._chance.choice(self._cases.small))

    async def call_large(self) -> None:
        await self._sample("large", self._chance.choice(self._cases.large))

    async def call_packed(self) -> None:
        await self._sample("packed", self._chance.choice(self._cases.packed))

    async def call_http(self) -> None:
        """Connect or REST."""
        path, kind, body, is_right = self._chance.choice(self._cases.http)
        begun, self._made = time.monotonic(), self._made + 1
        try:
            post = self._peer.post(self._server.http_address, path, kind, body, self._request_id)
            status, answer = await asyncio.wait_for(post, self._patience_s)
        except (OSError, EOFError, asyncio.TimeoutError) as error:
            self._peer.close()
            outcome, detail = "lost", f"{type(error).__name__} {error}"
        else:
            outcome, detail = "wrong", f"status {status} of {path}: {answer[:200]!r}"
            if status == HTTPStatus.OK and is_right(answer):
                outcome = "answered"
            elif status == HTTPStatus.TOO_MANY_REQUESTS:
                outcome = "refused"
        is_cut = outcome == "lost" or detail.startswith("status 503")
        if is_cut and self._server.interrupts(begun):
            outcome = "interrupted"
        if outcome != "answered":
            await asyncio.sleep(0.1)
        self._end("http", outcome, detail)

    async def call_expired(self) -> None:
        case = self._chance.choice([*self._cases.small, *self._cases.large])
        timeout_s = self._chance.choice((0.001, 0.02, 0.2))
        allowed = {Code.DEADLINE_EXCEEDED: "expired"}
        await self._sample("expired", case, allowed, timeout_s)

    async def call_cancelled(self) -> None:
        case = self._chance.choice([*self._cases.small, *self._cases.large])
        cancel_s = self._chance.uniform(0, 0.2)
        await self._sample("cancelled", case, {Code.CANCELLED: "cancelled"}, cancel_s=cancel_s)

    async def _sample(
        self,
        kind: str,
        case: SampleCase,
        allowed: Mapping[Code, str] | None = None,
        timeout_s: float | None = None,
        cancel_s: float | None = None,
    ) -> None:
        call = self._unary["Sample"](case.request, **self._options(timeout_s))
        if cancel_s is not None:
            asyncio.get_running_loop().call_later(cancel_s, call.cancel)

        def is_right(answer: bytes) -> bool:
            return case.is_right(pb.SampleResponse.FromString(answer))

        await self._unary_end(kind, call, is_right, allowed or {})

    async def call_encode(self) -> None:
        case = self._chance.choice(self._cases.encode)

        def is_right(answer: bytes) -> bool:
            return case.is_right(pb.EncodeResponse.FromString(answer))

        # The second model comes and goes.
        model = self._chance.choice(("", COMING))
        request = case.request + pb.EncodeRequest(model=model).SerializeToString()
        call = self._unary["Encode"](request, **self._options())
        allowed = {Code.NOT_FOUND: "rejected"} if model else {}
        await self._unary_end("encode", call, is_right, allowed)

    async def call_broken(self) -> None:
        method, request, code = self._chance.choice(self._broken)
        call = self._unary[method](request, **self._options())
        await self._unary_end("broken", call, lambda _: False, {code: "rejected"})

    async def call_upload(self) -> None:
        """Each fourth breaks off in the middle."""
        messages, case = self._chance.choice(self._cases.uploads)
        is_whole = self._chance.random() < 0.75
        sent = messages if is_whole else messages[: self._chance.randrange(1, len(messages))]

        def is_right(answer: bytes) -> bool:
            response = pb.SampleLargeResponse.FromString(answer).response
            return is_whole and case.is_right(response)

        call = self._upload(iter(sent), **self._options())
        allowed = {} if is_whole else {Code.INVALID_ARGUMENT: "rejected"}
        await self._unary_end("upload", call, is_right, allowed)

    async def _unary_end(
        self, kind: str, call: Awaitable[bytes], is_right: IsRight, allowed: Mapping[Code, str]
    ) -> None:
        begun = time.monotonic()
        detail = ""
        try:
            answer = await call
            outcome = "answered" if is_right(answer) else "wrong"
            detail = f"{len(answer)} bytes that are not the answer"
        except DecodeError:
            outcome, detail = "wrong", "an answer that does not parse"
        except grpc.aio.AioRpcError as error:
            outcome, detail = await self._judge(error, begun, allowed)
        except asyncio.CancelledError:
            if Code.CANCELLED not in allowed:
                raise
            outcome = "cancelled"
        self._end(kind, outcome, detail)

    def _end(self, kind: str, outcome: str, detail: str) -> None:
        if outcome == "unresolved":
            self._tally.unresolved.append((kind, self._request_id))
        else:
            self._tally.end(kind, outcome, detail)

    async def call_stream(self) -> None:
        """Up to twelve requests, each of which must be answered once, in order."""
        cases = self._chance.choices(self._cases.small, k=self._chance.randrange(1, 13))
        requests = [case.streamed() for case in cases]
        begun, answered, kind = time.monotonic(), 0, "stream"
        call = self._stream(iter(requests), **self._options())
        try:
            async for raw in call:
                answer = pb.SampleStreamResponse.FromString(raw)
                if answer.request_index < answered:
                    self._tally.end(kind, "doubled", detail=f"request {answer.request_index}")
                    return
                outcome, detail = judge_streamed(answer, cases[answered], answered)
                self._tally.end(kind, outcome, detail=detail)
                answered += 1
        except grpc.aio.AioRpcError as error:
            outcome, detail = await self._judge(error, begun, {})
            self._end(kind, outcome, detail)
            return
        for index in range(answered, len(cases)):
            self._tally.end(kind, "lost", detail=f"request {index} of a stream that ended well")

    async def _judge(
        self, error: grpc.aio.AioRpcError, begun: float, allowed: Mapping[Code, str]
    ) -> tuple[str, str]:
        """The outcome that a status stands for, and the detail of a failure."""
        code, detail = error.code(), f"{error.code().name}: {error.details()}"
        if code in allowed:
            return allowed[code], detail
        if code is Code.RESOURCE_EXHAUSTED:
            retry_s = retry_after_s(error)
            await asyncio.sleep(retry_s or 0)
            return ("wrong", f"{detail} without RetryInfo") if retry_s is None else ("refused", "")
        is_lost = (code, error.details()) == BROKEN_WRITE
        if (code is INTERRUPTED or is_lost) and self._server.interrupts(begun):
            await asyncio.sleep(0.1)
            return "interrupted", detail
        return ("unresolved" if is_lost or code is Code.DEADLINE_EXCEEDED else "wrong"), detail

    def _options(self, timeout_s: float | None = None) -> dict[str, Any]:
        self._made += 1
        metadata = (("x-request-id", self._request_id),)
        return {"timeout": timeout_s or self._patience_s, "metadata": metadata}

    @property
    def _request_id(self) -> str:
        """Of the call that was made last."""
        return f"{self._number}-{self._made}"
