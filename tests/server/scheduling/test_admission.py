"""Points and bytes inside, what happens at their bounds, and how messages take turns to come in."""

import asyncio

import pytest

from farpoint_server.errors import OverloadedError
from farpoint_server.scheduling.admission import Admission, Receiving


def make(**bounds) -> Admission:
    return Admission(**{"max_points": 10, "max_bytes": 1000, "retry_ms": 1} | bounds)


def test_points_and_bytes_are_held_until_the_block_ends():
    admission = make()
    with admission.hold(4, 500), admission.hold(6, 500):
        assert (admission.points, admission.bytes) == (10, 1000)
    assert (admission.points, admission.bytes) == (0, 0)


@pytest.mark.parametrize(
    ("points", "size", "said"), [(4, 1, "no room for 4 more"), (1, 501, "no room for 501 more")]
)
def test_what_is_beyond_a_bound_is_refused_and_not_counted(points, size, said):
    admission = make(retry_ms=70)
    with admission.hold(7, 500):
        with pytest.raises(OverloadedError, match=said) as caught:
            admission.hold(points, size).__enter__()
        assert (admission.points, admission.bytes) == (7, 500)
    assert caught.value.retry_ms == 70


@pytest.mark.parametrize(("points", "size"), [(10, 1), (1, 1000)])
def test_a_full_server_says_so_before_a_request_is_received(points, size):
    admission = make()
    admission.check_room()
    with admission.hold(points, size), pytest.raises(OverloadedError):
        admission.check_room()
    admission.check_room()


def test_a_failed_request_gives_back_what_it_held():
    admission = make()
    with pytest.raises(ValueError, match="bad"), admission.hold(10, 10):
        raise ValueError("bad")
    assert (admission.points, admission.bytes) == (0, 0)


async def entered(receiving: Receiving, leave: asyncio.Event) -> None:
    await receiving.receive(leave.wait)


async def finish(*tasks: asyncio.Task, within_s: float = 30) -> bool:
    done, _ = await asyncio.wait(tasks, timeout=within_s)
    return len(done) == len(tasks)


async def test_messages_take_turns():
    receiving, leave, at_once = Receiving(1, patience_s=60), asyncio.Event(), asyncio.Event()
    at_once.set()
    first = asyncio.create_task(entered(receiving, leave))
    await asyncio.sleep(0)
    second = asyncio.create_task(entered(receiving, at_once))
    assert not await finish(second, within_s=0.05)
    leave.set()
    assert await finish(first, second)


async def test_slow_senders_do_not_keep_others_out_and_give_each_turn_back_once():
    receiving, never, at_once = Receiving(1, patience_s=0.01), asyncio.Event(), asyncio.Event()
    at_once.set()
    slow = [asyncio.create_task(entered(receiving, never)) for _ in range(3)]
    assert await finish(asyncio.create_task(entered(receiving, at_once)))
    for task in slow:
        task.cancel()
    await asyncio.wait(slow)
    assert receiving._free == 1


async def test_a_turn_that_ended_in_time_is_given_back_once():
    receiving, at_once = Receiving(1, patience_s=0.01), asyncio.Event()
    at_once.set()
    await entered(receiving, at_once)
    await asyncio.sleep(0.03)
    assert receiving._free == 1


async def test_a_sender_who_leaves_gives_its_turn_back():
    receiving, never = Receiving(1, patience_s=60), asyncio.Event()
    left = asyncio.create_task(entered(receiving, never))
    await asyncio.sleep(0)
    left.cancel()
    never.set()
    assert await finish(left, asyncio.create_task(entered(receiving, never)))


async def test_a_turn_that_begins_while_another_lasts_has_its_own_time():
    receiving, never, at_once = Receiving(2, patience_s=0.2), asyncio.Event(), asyncio.Event()
    at_once.set()
    first = asyncio.create_task(entered(receiving, never))
    await asyncio.sleep(0.12)
    second = asyncio.create_task(entered(receiving, never))
    await asyncio.sleep(0)
    third, fourth = (asyncio.create_task(entered(receiving, never)) for _ in range(2))
    await asyncio.sleep(0.12)
    assert receiving._free == 0
    last = asyncio.create_task(entered(receiving, at_once))
    assert await finish(last)
    for task in (first, second, third, fourth):
        task.cancel()
    await asyncio.wait((first, second, third, fourth))
    assert receiving._free == 2


async def test_who_leaves_when_it_is_its_turn_gives_it_to_the_next():
    receiving, leave, at_once = Receiving(1, patience_s=60), asyncio.Event(), asyncio.Event()
    at_once.set()
    first, left, last = (
        asyncio.create_task(entered(receiving, event)) for event in (leave, leave, at_once)
    )
    await asyncio.sleep(0)
    leave.set()
    await first
    left.cancel()
    assert await finish(left, last)
    assert receiving._free == 1
