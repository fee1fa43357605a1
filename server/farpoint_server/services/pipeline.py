"""The steps of every request: receive, admit, decode, schedule, serialize.

Sample, SampleStream, SampleLarge, Encode and ModelInfer differ in how they parse a message. What
they make of it is a `Call`, which takes the rest of the way here.
"""

import asyncio
import time
from collections import OrderedDict, deque
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import Any, Generic, TypeVar

import grpc

from farpoint.v1.tensor_pb2 import DATA_TYPE_FLOAT32
from farpoint_server import request_context
from farpoint_server.codec.coordinates import DecodedSampleRequest, decode_sample_request
from farpoint_server.codec.sample_request import (
    ParsedSampleRequest,
    parse_sample_request,
    read_sample_message,
)
from farpoint_server.codec.sample_response import response_bytes, serialize_sample_response
from farpoint_server.codec.shared_memory import Regions
from farpoint_server.codec.small_sample import SmallSample
from farpoint_server.codec.tensors import RequestLimits, TensorView
from farpoint_server.engine.engine import Engine, check_any
from farpoint_server.engine.methods import method_bytes
from farpoint_server.engine.sample import sample_bytes
from farpoint_server.engine.types import Answer, Int64s, Outcome, Samples
from farpoint_server.errors import DeadlinePassedError
from farpoint_server.scheduling.batcher import Batcher, Scheduler
from farpoint_server.transport.admission import Admission
from farpoint_server.transport.handlers import Context, read_end

# Less is decoded or serialized on the event loop, 0.12 ms for a megabyte: the way to another thread
# costs more CPU, and gRPC itself copies every message there.
INLINE_BYTES = 3 << 20
# Aligned float32 is only looked at, for NaN and infinity: a megabyte takes 25 us, and float64 120.
INLINE_FLOAT32_BYTES = 1 << 23
# The cost of a radius is computed from every point: a quarter of a millisecond for these.
INLINE_RADIUS_POINTS = 10_000

# Twelve megabytes take some ten milliseconds on one machine; a slow sender does not hold up others.
TURN_S = 0.5
# A message that took longer would hold its memory for nothing; SampleLarge sends it in pieces.
RECEIVE_S = 120.0

T = TypeVar("T")


class FairSemaphore:
    """A semaphore that is fair between callers."""

    def __init__(self, count: int) -> None:
        self._free = count
        # The caller whose turn it is next comes first.
        self._waiting: OrderedDict[str, deque[asyncio.Future[None]]] = OrderedDict()

    async def acquire(self, caller: str) -> None:
        """Waits for a turn."""
        if self._free:
            self._free -= 1
            return
        turn = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(caller, deque()).append(turn)
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():
                self.release()
            raise

    def release(self) -> None:
        """Releases a turn, or passes it to the next caller."""
        while self._waiting:
            caller, turns = next(iter(self._waiting.items()))
            turn = turns.popleft()
            if turns:
                self._waiting.move_to_end(caller)
            else:
                del self._waiting[caller]
            if not turn.done():
                turn.set_result(None)
                return
        self._free += 1


class Receiver:
    """Receives a few messages at a time; flow control delays the others.

    While a message is received it lies in memory twice, in gRPC and in Python, and its size is
    unknown. A slow one gives its turn to others after `turn_s` (up to twice as long), so that slow
    senders do not block others, and is refused after `timeout_s`. Callers take turns: one that
    sends much or slowly makes its own calls wait.
    """

    def __init__(self, turns: int, turn_s: float = TURN_S, timeout_s: float = RECEIVE_S) -> None:
        self._turns = FairSemaphore(turns)
        self._turn_s = turn_s
        self._timeout_s = timeout_s
        self._readings: set[_Reading] = set()
        self._timer: asyncio.TimerHandle | None = None

    async def receive(self, context: Context) -> bytes:
        """Waits for a turn and returns the bytes of the first message of a call.

        Raises:
            DeadlinePassedError: it did not arrive in time.
            InvalidRequestError: the caller sent no message.
        """
        await self._turns.acquire(request_context.caller.get())
        reading = _Reading()
        self._readings.add(reading)
        # One timer for all: one for each, or wait_for, would cost more than all else here.
        if self._timer is None:
            self._set_timer()
        try:
            message: Any = await context.read()
        except asyncio.CancelledError:
            if reading.timed_out:
                raise DeadlinePassedError("the message did not arrive in time") from None
            raise
        finally:
            self._readings.remove(reading)
            reading.end_turn(self._turns)
        if message is grpc.aio.EOF:
            await read_end(context)
        return bytes(message)

    def _set_timer(self) -> None:
        self._timer = asyncio.get_running_loop().call_later(self._turn_s, self.look)

    def look(self) -> None:
        """Called by the timer: ends turns that last too long, and cancels late messages."""
        now = time.monotonic()
        for reading in self._readings:
            if now - reading.began >= self._turn_s:
                reading.end_turn(self._turns)
            if now - reading.began >= self._timeout_s:
                reading.time_out()
        self._timer = None
        if self._readings:
            self._set_timer()


class _Reading:
    """A message that is being received."""

    __slots__ = ("_task", "began", "has_turn", "timed_out")

    def __init__(self) -> None:
        self._task = asyncio.current_task()
        self.began = time.monotonic()
        self.has_turn = True
        self.timed_out = False

    def end_turn(self, turns: FairSemaphore) -> None:
        if self.has_turn:
            self.has_turn = False
            turns.release()

    def time_out(self) -> None:
        if self._task is not None and not self.timed_out:
            self.timed_out = True
            self._task.cancel()


class Call(Generic[Answer, T]):
    """A request to a loaded model, parsed and valid.

    Args:
        model: Its name.
        lengths: Points of each cloud, (B,).
        size: Bytes that it holds until it is answered.
        to_work: Makes the work, with the `least_bytes` of its longest cloud; raises
            InvalidRequestError for values that are wrong.
        to_response: Makes the response of the outcome.
    """

    is_small = False
    """Whether it is decoded on the event loop."""

    def __init__(
        self,
        model: str,
        lengths: Int64s,
        size: int,
        to_work: Callable[[], Any],
        to_response: Callable[[Outcome[Answer]], T],
    ) -> None:
        self.model, self.lengths, self.size = model, lengths, size
        self.decode, self.serialize = to_work, to_response
        self.points = int(lengths.sum())

    def least_bytes(self) -> int | None:
        """Minimum device memory; None if it is known only after decoding."""
        return None

    def is_short(self, outcome: Outcome[Answer]) -> bool:  # noqa: ARG002
        """Whether the response is serialized on the event loop."""
        return False

    def describe(self, fields: dict[str, Any], outcome: Outcome[Answer]) -> None:  # noqa: ARG002
        """Adds optional fields to its log line."""
        fields["model"] = self.model


class SampleCall(Call[Samples, T]):
    """A request to sample, parsed and valid.

    Args:
        request: Not kept longer than its data is needed, if the caller does not.
        to_response: Makes the response of the decoded request and the outcome.
    """

    def __init__(
        self,
        request: ParsedSampleRequest,
        to_response: Callable[[DecodedSampleRequest, Outcome[Samples]], T],
    ) -> None:
        self._request, self._to_response = request, to_response
        tensor, shared_bytes = request.points, request.shared_bytes
        self.lengths, self.points = request.lengths, tensor.shape[0]
        self.size = request.message_bytes + shared_bytes
        is_float32 = type(tensor) is TensorView and tensor.data_type == DATA_TYPE_FLOAT32
        is_used_as_is = is_float32 and tensor.is_aligned
        self.is_small = (
            len(tensor.data) <= (INLINE_FLOAT32_BYTES if is_used_as_is else INLINE_BYTES)
            and shared_bytes <= INLINE_BYTES
            and (request.covering_radius is None or self.points <= INLINE_RADIUS_POINTS)
        )

    def decode(self) -> Any:
        decoded = decode_sample_request(self._request)
        self._request = decoded.request  # what it is a copy of is not kept
        self.serialize = partial(self._to_response, decoded)
        return decoded.work

    def least_bytes(self) -> int:
        counts, lengths = self._request.sample_counts, self.lengths
        longest = int(lengths.argmax()) if len(lengths) > 1 else 0
        if self._request.method is not None:
            return method_bytes(int(lengths[longest]))
        samples = int(counts[longest if len(counts) > 1 else 0])
        return sample_bytes(int(lengths[longest]), 1, samples)

    def is_short(self, outcome: Outcome[Samples]) -> bool:
        return response_bytes(self._request, outcome) <= INLINE_BYTES

    def describe(self, fields: dict[str, Any], outcome: Outcome[Samples]) -> None:
        fields["samples"] = len(outcome.result.rows)


@dataclass(frozen=True)
class Pipeline:
    """The steps of every request, and their components.

    Args:
        limits: What one request may hold at most.
        admission: What all requests together may hold at most.
        receiving: Whose turn it is to send a message.
        batcher: Runs the work.
        engines: One of them gets a request.
        threads: Where large messages are decoded and serialized.
        regions: Shared memory that requests to sample may refer to.
    """

    limits: RequestLimits
    admission: Admission
    receiving: Receiver
    batcher: Scheduler
    engines: Sequence[Engine]
    threads: ThreadPoolExecutor
    regions: Regions = field(default_factory=Regions)

    @cached_property
    def _inline(self) -> Batcher | None:
        """Runs small work on the event loop; None with several devices."""
        return self.batcher if isinstance(self.batcher, Batcher) else None

    @cached_property
    def is_bounded(self) -> bool:
        """Whether every engine has a bound on its memory."""
        return all(engine.memory.bounded for engine in self.engines)

    async def sample(self, _: object, context: Context) -> bytes:
        """Sample: the serialized SampleResponse to the message of a call."""
        arrived = time.monotonic()
        raw = await self.receive(context)
        answer = self._answer_small(raw, arrived)
        if answer is not None:
            return answer
        message = read_sample_message(raw, self.limits.clouds)
        request = parse_sample_request(message, self.limits, self.regions)
        del raw, message  # what the points need of it, they hold
        call = SampleCall(request, partial(serialize_sample_response, arrived))
        del request
        return await self.run(call, context.time_remaining())

    def _answer_small(self, raw: bytes, arrived: float) -> bytes | None:
        """The response to a small common request, if the engine is idle."""
        if (batcher := self._inline) is None:
            return None
        work = SmallSample.read(raw, self.limits, self.engines[0].inline_ns, arrived)
        if work is None:
            return None
        # Not reserved at admission: until it is answered, no other request is looked at.
        outcome: Outcome[bytes] | None = batcher.run_inline(work)
        if outcome is None:
            return None
        fields = request_context.current().fields
        fields["points"], fields["clouds"], fields["samples"] = work.point_count, 1, work.samples
        fields["queue_ms"], fields["compute_ms"] = 0.0, round(outcome.compute_ms, 3)
        return outcome.result

    async def receive(self, context: Context) -> bytes:
        """The message of a call; raises ServiceError without headroom for it."""
        self.admission.check_headroom()
        return await self.receiving.receive(context)

    async def run(
        self, call: Call[Any, T], timeout_s: float | None, *, is_admitted: bool = False
    ) -> T:
        """The response to a request.

        Args:
            call: The request.
            timeout_s: Seconds that the caller will still wait; None for ever.
            is_admitted: Whether the caller has it count already.
        """
        current, loop = request_context.variable.get(), asyncio.get_running_loop()
        fields = {} if current is None else current.fields
        with nullcontext() if is_admitted else self.admission.reserve(call.points, call.size):
            fields["points"], fields["clouds"] = call.points, len(call.lengths)
            least_bytes = call.least_bytes() if self.is_bounded else None
            if least_bytes is not None:
                check_any(self.engines, least_bytes)
            if call.is_small:
                work = call.decode()
            else:
                work = await loop.run_in_executor(self.threads, call.decode)
            if self.is_bounded and least_bytes is None:
                check_any(self.engines, work.least_bytes)
            outcome = await self.batcher.run(work, timeout_s)
            call.describe(fields, outcome)
            fields["queue_ms"] = round(outcome.queue_ms, 3)
            fields["compute_ms"] = round(outcome.compute_ms, 3)
            if call.is_short(outcome):
                return call.serialize(outcome)
            return await loop.run_in_executor(self.threads, call.serialize, outcome)
