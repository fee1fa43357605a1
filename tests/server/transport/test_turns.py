"""In which order waiting callers get their turns."""

import asyncio

from farpoint_server.transport.receive import Turns


async def wait_in_line(turns: Turns, caller: str, served: list[str]) -> None:
    await turns.acquire(caller)
    served.append(caller)
    turns.release()


async def test_callers_take_turns_however_many_of_their_calls_wait():
    turns, served = Turns(1), []
    await turns.acquire("first")
    waiting = [asyncio.create_task(wait_in_line(turns, caller, served)) for caller in "aaaabbc"]
    await asyncio.sleep(0)  # all of them wait now
    turns.release()
    await asyncio.gather(*waiting)
    assert "".join(served) == "abcabaa"


async def test_who_leaves_the_line_or_at_its_turn_takes_no_turn_away():
    turns, served = Turns(1), []
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


async def test_as_many_as_there_are_turns_go_at_once_and_each_comes_back():
    turns = Turns(2)
    for _ in range(3):
        for caller in "ab":
            await turns.acquire(caller)
        third = asyncio.create_task(turns.acquire("c"))
        await asyncio.sleep(0)
        assert not third.done()
        turns.release()
        await asyncio.wait_for(third, 30)
        turns.release()
        turns.release()
    assert (turns._free, turns._waiting) == (2, {})
