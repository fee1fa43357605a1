"""Messages are received a few at a time; callers take turns."""

import asyncio
from collections.abc import Awaitable

import grpc
import pytest
from structlog.testing import capture_logs
from tests.support.compute.scheduling import until
from tests.support.rpc import METHOD, serving

from farpoint_server.codec.tensors import RequestLimits
from farpoint_server.errors import DeadlinePassedError, OverloadedError
from farpoint_server.services.pipeline import Pipeline
from farpoint_server.services.receiver import (
    CROWD,
    RECEIVE_S,
    ROUND,
    TURN_S,
    FairTurns,
    Receiver,
)
from farpoint_server.transport.admission import Admission
from farpoint_server.transport.grpc.interceptor import RequestInterceptor
from farpoint_server.transport.limits import InFlight


class Sender:
    """The context of a call whose message arrives when the test says so."""

    def __init__(self, arrived: bool = False) -> None:
        self.begun, self.arrived = asyncio.Event(), asyncio.Event()
        if arrived:
            self.arrived.set()

    async def read(self) -> bytes:
        self.begun.set()
        await self.arrived.wait()
        return b"message"


def start(turns: Receiver, sender: Sender) -> "asyncio.Task[bytes]":
    return asyncio.create_task(turns.receive(sender))


async def within_30_s(*awaited: Awaitable[object]) -> None:
    await asyncio.wait_for(asyncio.gather(*awaited), 30)


async def are_all_free(turns: Receiver, count: int) -> None:
    """Exactly `count` messages can come in at once."""
    senders = [Sender() for _ in range(count + 1)]
    tasks = [start(turns, sender) for sender in senders]
    await within_30_s(*(sender.begun.wait() for sender in senders[:-1]))
    assert not senders[-1].begun.is_set()
    for sender in senders:
        sender.arrived.set()
    await within_30_s(*tasks)


async def test_messages_take_turns_and_a_sender_who_leaves_gives_its_turn_back(clock):  # noqa: ARG001
    turns, first, left, last = Receiver(1), Sender(), Sender(), Sender(arrived=True)
    one, two, three = (start(turns, sender) for sender in (first, left, last))
    await within_30_s(first.begun.wait())
    assert not left.begun.is_set()
    first.arrived.set()
    await within_30_s(one, left.begun.wait())
    assert not last.begun.is_set()
    two.cancel()
    with pytest.raises(asyncio.CancelledError):
        await two
    await within_30_s(three)
    await are_all_free(turns, 1)


async def test_slow_senders_do_not_keep_others_out_and_give_each_turn_back_once(clock):
    turns, quick = Receiver(1), Sender(arrived=True)
    senders = [Sender() for _ in range(3)]
    slow, answered = [start(turns, sender) for sender in senders], start(turns, quick)
    for sender in senders:
        await within_30_s(sender.begun.wait())
        assert not answered.done()
        clock.s += TURN_S
        turns.sweep()
    await within_30_s(answered)
    senders[0].arrived.set()
    assert await asyncio.wait_for(slow[0], 30) == b"message"
    for task in slow[1:]:
        task.cancel()
    await asyncio.wait(slow)
    await are_all_free(turns, 1)


async def test_every_slow_turn_ends_by_itself_also_after_a_time_without_messages():
    turns = Receiver(1, turn_s=0.01)
    for _ in range(3):
        slow, next_one = Sender(), Sender(arrived=True)
        first, second = start(turns, slow), start(turns, next_one)
        await within_30_s(second)
        slow.arrived.set()
        await within_30_s(first)
        await asyncio.sleep(0.03)  # the timer ends when there is nothing to watch


async def test_a_message_that_takes_too_long_is_refused(clock):
    turns, sender = Receiver(1), Sender()
    task = start(turns, sender)
    await within_30_s(sender.begun.wait())
    for seconds in (RECEIVE_S - 0.1, 0.1):
        assert not task.done()
        clock.s += seconds
        turns.sweep()
        await asyncio.sleep(0)
    with pytest.raises(DeadlinePassedError, match="did not arrive in time"):
        await asyncio.wait_for(task, 30)
    await are_all_free(turns, 1)


async def test_a_full_server_receives_nothing():
    sender, admission = Sender(arrived=True), Admission(max_points=1, max_bytes=1)
    pipeline = Pipeline(RequestLimits(1, 1, 1), admission, Receiver(1), None, [], None)
    with admission.reserve(1, 1), pytest.raises(OverloadedError):
        await pipeline.receive(sender)
    assert not sender.begun.is_set()


@pytest.fixture
def turns():
    return Receiver(100)


@pytest.fixture
async def channel(turns):
    """A channel to a server whose only method receives its own message."""

    async def length(_: object, context: grpc.aio.ServicerContext) -> bytes:
        return str(len(await turns.receive(context))).encode()

    async with serving(length, RequestInterceptor(InFlight()), kind="stream_unary") as channel:
        yield channel


async def test_calls_that_break_off_are_cancelled_and_not_wrong(channel):
    with capture_logs() as log:
        calls = [channel.stream_unary(METHOD)() for _ in range(50)]
        await asyncio.gather(*(call.wait_for_connection() for call in calls))
        # Answered after all that was sent before: the server has begun those calls.
        await channel.unary_unary(METHOD)(b"hello")
        for call in calls:
            call.cancel()
        await until(lambda: len(log) == 51)
    assert sorted(line["status"] for line in log) == ["CANCELLED"] * 50 + ["OK"]


async def wait_in_line(turns: FairTurns, caller: str, served: list[str]) -> None:
    await turns.acquire(caller)
    served.append(caller)
    turns.release()


async def test_callers_take_turns_however_many_of_their_calls_wait():
    turns, served = FairTurns(1), []
    await turns.acquire("first")
    waiting = [asyncio.create_task(wait_in_line(turns, caller, served)) for caller in "aaaabbc"]
    await asyncio.sleep(0)  # all of them wait now
    turns.release()
    await asyncio.gather(*waiting)
    assert "".join(served) == "abcabaa"


async def turns_by_round(calls: int) -> list[int]:
    """Turns in each round of the event loop while calls that came at once are served."""
    turns, served = FairTurns(calls), []
    everyone = asyncio.gather(*(wait_in_line(turns, "a", served) for _ in range(calls)))
    rounds: list[int] = []
    while not everyone.done():
        await asyncio.sleep(0)
        rounds.append(len(served) - sum(rounds))
    assert sum(rounds) == calls
    return [count for count in rounds if count]


async def test_a_round_of_the_event_loop_has_a_few_turns():
    assert {*await turns_by_round(CROWD)} == {ROUND}


async def test_a_round_has_one_turn_while_many_calls_wait():
    rounds = await turns_by_round(CROWD + 10 * ROUND)
    assert rounds[0] == rounds[-2] == ROUND  # before they wait, and when few are left
    assert {*rounds[1 : 8 * ROUND]} == {1}


async def test_a_caller_that_leaves_before_or_at_its_turn_takes_no_turn_away():
    turns, served = FairTurns(1), []
    await turns.acquire("first")
    a, b, c = (asyncio.create_task(wait_in_line(turns, caller, served)) for caller in "abc")
    await asyncio.sleep(0)
    a.cancel()
    await asyncio.wait([a])
    turns.release()
    b.cancel()  # it has its turn, and does not know yet
    await asyncio.wait([b, c])
    assert served == ["c"]
    await asyncio.wait_for(turns.acquire("d"), 30)
