"""Threads at the gate."""

import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack

import pytest

from farpoint_server.memory.gate import Gate


def insist(gate: Gate, timeout_s: float) -> bool:
    with gate.exclusive(timeout_s) as entered:
        return entered


def test_a_trim_gives_up_while_a_batch_is_inside():
    gate = Gate()
    with gate.reading(), gate.try_exclusive() as entered:
        assert not entered
    with gate.try_exclusive() as entered, gate.try_exclusive() as again:
        assert (entered, again) == (True, False)


def test_a_batch_waits_for_the_trim_that_runs():
    gate, order = Gate(), []

    def read() -> None:
        with gate.reading():
            order.append("batch")

    with ThreadPoolExecutor(1) as threads:
        with gate.try_exclusive():
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
        trim = threads.submit(insist, gate, 30)
        while gate.enter():  # until the trim has begun to insist
            gate.leave()
        assert not trim.done()
        inside.close()
        assert trim.result(30)
        assert gate.enter()
        gate.leave()
    assert gate.readers == 0


def test_a_trim_that_insists_gives_up_in_time_and_lets_batches_in_again():
    gate = Gate()
    with gate.reading(), ThreadPoolExecutor(1) as threads:
        assert threads.submit(insist, gate, 0.05).result(30) is False
        assert gate.enter()
        gate.leave()


def test_batches_never_starve_under_trims_that_do_not_stop():
    gate, stop = Gate(), threading.Event()
    overlaps: list[int] = []

    def trim() -> None:
        while not stop.is_set():
            with gate.try_exclusive() as entered:
                if entered and gate.readers:
                    overlaps.append(gate.readers)
            stop.wait(0)

    def batches() -> None:
        for _ in range(50):
            with gate.reading():
                pass

    with ThreadPoolExecutor(3) as threads:
        trims = threads.submit(trim)
        readers = [threads.submit(batches) for _ in range(2)]
        try:
            for reader in readers:
                reader.result(30)
        finally:
            stop.set()
        trims.result(30)
    assert not overlaps


@pytest.mark.parametrize("how", ["enter", "hold_shared"])
def test_a_batch_that_does_not_wait_counts_until_it_leaves(how):
    gate = Gate()
    if how == "enter":
        assert gate.enter()
        leave = gate.leave
    else:
        with gate.reading():
            leave = gate.hold_shared()
    with gate.try_exclusive() as entered:
        assert not entered
    leave()
    with gate.try_exclusive() as entered:
        assert entered
    assert gate.readers == 0


def test_a_wait_until_the_gate_is_empty_holds_nobody_back():
    gate = Gate()
    assert gate.enter()
    with ThreadPoolExecutor(1) as threads:
        waiting = threads.submit(gate.wait_until_empty, 30)
        with gate.reading():
            gate.leave()
            assert not waiting.done()
        assert waiting.result(30)
    with gate.reading():
        assert not gate.wait_until_empty(0.01)
