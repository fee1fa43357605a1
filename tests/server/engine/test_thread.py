"""The thread of an engine: order, errors, what is given up, what is kept."""

import asyncio
import gc
import threading
import time
import weakref

import pytest

from farpoint_server.engine.thread import EngineThread
from farpoint_server.errors import clear_tracebacks


@pytest.fixture
def thread():
    thread = EngineThread("engine", lambda: None)
    yield thread
    thread.stop()


class Work:
    """Something large that a function holds."""

    def done(self) -> str:
        return "done"

    def fail(self) -> str:
        raise ValueError("failed")


async def test_functions_run_in_order_on_one_thread_that_was_prepared_first():
    ran = []
    thread = EngineThread("engine", lambda: ran.append(threading.get_ident()))
    names = await asyncio.gather(*(thread.call(threading.get_ident) for _ in range(3)))
    assert set(names) == set(ran)
    assert len(ran) == 1
    thread.stop()


async def test_what_a_function_raises_is_raised_to_its_caller_alone(thread):
    failed, served = thread.call(Work().fail), thread.call(Work().done)
    with pytest.raises(ValueError, match="failed"):
        await failed
    assert await served == "done"


async def test_a_function_that_is_given_up_before_its_turn_does_not_run(thread):
    turn, ran = threading.Event(), []
    first, second = thread.call(turn.wait), thread.call(lambda: ran.append(1))
    second.cancel()
    turn.set()
    await first
    await thread.call(lambda: None)
    assert ran == []


@pytest.mark.parametrize("function", [Work.done, Work.fail])
async def test_nothing_of_a_function_is_kept_while_the_thread_waits(thread, function):
    gc.collect()
    gc.disable()
    work = Work()
    kept = weakref.ref(work)
    answer = thread.call(lambda held=work: function(held))
    try:
        await answer
    except ValueError as error:
        clear_tracebacks(error)
    del work, answer
    give_up = time.monotonic() + 30
    while kept() is not None and time.monotonic() < give_up:  # the thread may be slow to go on
        await asyncio.sleep(0.001)
    found = kept()
    gc.enable()
    assert found is None
