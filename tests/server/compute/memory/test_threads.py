"""Threads at the gate, and threads of a manager that interrupt one another anywhere."""

import sys
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from functools import partial
from itertools import count
from types import FrameType
from typing import Any

from tests.support.memory.simulation import GIB, Simulation, one

from farpoint_server.compute import memory
from farpoint_server.compute.memory.gate import Gate


def insist(gate: Gate, timeout_s: float) -> bool:
    with gate.exclusive(timeout_s) as entered:
        return entered


def test_a_trim_gives_up_while_a_batch_is_inside():
    gate = Gate()
    with gate.reading(), gate.exclusive() as entered:
        assert not entered
    with gate.exclusive() as entered, gate.exclusive() as again:
        assert (entered, again) == (True, False)


def test_a_batch_waits_for_the_trim_that_runs():
    gate, order = Gate(), []

    def read() -> None:
        with gate.reading():
            order.append("batch")

    with ThreadPoolExecutor(1) as threads:
        with gate.exclusive():
            reader = threads.submit(read)
            assert not gate.enter()
            order.append("trim")
        reader.result(30)
    assert order == ["trim", "batch"]


def test_a_trim_that_insists_holds_new_batches_back_until_those_inside_are_done():
    gate = Gate()
    with ThreadPoolExecutor(2) as threads, ExitStack() as inside:
        assert gate.enter()
        inside.callback(gate.leave)
        trim = threads.submit(insist, gate, 60)
        while gate.enter():  # until the trim has begun to insist
            gate.leave()
        assert not trim.done()
        inside.close()
        assert trim.result(30)
    with gate.reading():
        assert not insist(gate, 0.05), "a trim that insists gives up in time"
        assert gate.enter()
        gate.leave()
    assert gate.readers == 0


def test_a_wait_until_the_gate_is_empty_holds_no_batch_back():
    gate = Gate()
    assert gate.enter()
    with ThreadPoolExecutor(1) as threads:
        waiting = threads.submit(gate.wait_until_empty, 60)
        with gate.reading():
            gate.leave()
            assert not waiting.done()
        assert waiting.result(30)
    with gate.reading():
        assert not gate.wait_until_empty(0.01)


(PACKAGE,) = memory.__path__
# What goes on meanwhile may have to wait for a lock, and then ends later.
MEANWHILE_S = 0.1


def interrupted(work: Callable[[], object], at: int, meanwhile: Callable[[], object]) -> bool:
    """Runs `work`, and before its instruction `at` in the memory package `meanwhile` in a thread.

    Returns:
        Whether `work` has so many instructions.
    """
    numbers = count()
    other = threading.Thread(target=meanwhile)

    def trace(frame: FrameType, event: str, _: object) -> Any:
        if not frame.f_code.co_filename.startswith(PACKAGE):
            return None
        if event == "call":  # since Python 3.13 the flag has no effect before f_trace is set
            frame.f_trace, frame.f_trace_opcodes = trace, True
        if event == "opcode" and next(numbers) == at:
            other.start()
            other.join(MEANWHILE_S)
        return trace

    before = sys.gettrace()
    sys._getframe().f_trace_opcodes = True  # Python 3.12 asks whether any frame has it, in settrace
    sys.settrace(trace)
    try:
        work()
    finally:
        sys.settrace(before)
    if other.ident is None:
        return False
    other.join(30)
    return True


def test_two_lanes_may_be_interrupted_by_each_other_anywhere_in_a_batch():
    """Neither is refused or cut, and the memory of both is given back by the next trim."""
    at, goes_on = 0, True
    while goes_on:
        simulation = Simulation(total=GIB, bounded=True)
        answers: list[str] = []

        def run(name: str, simulation=simulation, answers=answers) -> None:
            answers.extend(simulation.run(one(name, 100)))

        goes_on = interrupted(partial(run, "short"), at, partial(run, "long"))
        assert sorted(answers) == (["long", "short"] if goes_on else ["short"])
        assert simulation.gate.readers == 0
        assert simulation.manager.trim() is not None
        assert simulation.allocator.stats().reserved == 0
        at += 7
    assert at > 100


def test_a_batch_that_does_not_fit_with_that_of_the_other_lane_waits_for_it():
    simulation = Simulation(total=GIB, bounded=True)
    inside, go = threading.Event(), threading.Event()

    def hold() -> None:
        simulation.meanwhile = lambda: None
        inside.set()
        assert go.wait(30)

    simulation.meanwhile = hold
    with ThreadPoolExecutor(2) as threads:
        long = threads.submit(simulation.run, one("long", 700))
        assert inside.wait(30)
        small = threads.submit(simulation.run, one("small", 100))
        assert small.result(30) == ["small"]
        short = threads.submit(simulation.run, one("short", 600))
        while not simulation.gate.waiting:
            time.sleep(0.001)
        assert not short.done()
        go.set()
        assert (long.result(30), short.result(30)) == (["long"], ["short"])
    assert simulation.manager.snapshot.refused == 0
