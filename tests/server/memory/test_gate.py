"""Threads at the gate."""

import threading
import time
from concurrent.futures import ThreadPoolExecutor

from farpoint_server.memory.gate import Gate


def test_a_trim_gives_up_while_a_batch_is_inside():
    gate = Gate()
    with gate.reading(), gate.try_exclusive() as entered:
        assert not entered
    with gate.try_exclusive() as entered, gate.try_exclusive() as again:
        assert (entered, again) == (True, False)


def test_a_batch_waits_for_the_trim_that_runs():
    gate = Gate()
    order = []
    with ThreadPoolExecutor(1) as threads:
        with gate.try_exclusive():
            reader = threads.submit(lambda: _read(gate, order))
            time.sleep(0.05)
            order.append("trim")
        reader.result(30)
    assert order == ["trim", "batch"]


def test_exclusive_holds_new_batches_back_until_those_inside_are_done():
    gate = Gate()
    order: list[str] = []
    inside, go = threading.Event(), threading.Event()

    def long() -> None:
        with gate.reading():
            inside.set()
            go.wait(30)
            order.append("long")

    def trim() -> None:
        with gate.exclusive(30) as entered:
            assert entered
            order.append("trim")

    with ThreadPoolExecutor(3) as threads:
        running = [threads.submit(long)]
        assert inside.wait(30)
        running.append(threads.submit(trim))
        while not gate._insisting:
            time.sleep(0.001)
        running.append(threads.submit(lambda: _read(gate, order)))
        time.sleep(0.05)
        go.set()
        for future in running:
            future.result(30)
    assert order == ["long", "trim", "batch"]


def test_exclusive_gives_up_in_time_and_lets_batches_in_again():
    gate = Gate()
    with gate.reading(), ThreadPoolExecutor(1) as threads:
        assert threads.submit(lambda: _insist(gate, 0.05)).result(30) is False
        order: list[str] = []
        threads.submit(lambda: _read(gate, order)).result(30)
        assert order == ["batch"]


def test_batches_never_starve_under_trims_that_do_not_stop():
    gate = Gate()
    stop = threading.Event()
    overlaps: list[int] = []

    def trim() -> None:
        while not stop.is_set():
            with gate.try_exclusive() as entered:
                if entered and gate.readers:
                    overlaps.append(gate.readers)
            time.sleep(0)

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


def _read(gate: Gate, order: list[str]) -> None:
    with gate.reading():
        order.append("batch")


def _insist(gate: Gate, timeout_s: float) -> bool:
    with gate.exclusive(timeout_s) as entered:
        return entered


def test_a_batch_that_does_not_wait_is_let_in_or_turned_away():
    gate = Gate()
    assert gate.enter()
    with gate.try_exclusive() as entered:
        assert not entered
    gate.leave()
    with gate.try_exclusive() as entered:
        assert entered
        assert not gate.enter()
    assert gate.readers == 0


def test_a_batch_that_does_not_wait_ends_the_wait_of_a_trim_that_insists():
    gate = Gate()
    assert gate.enter()
    with ThreadPoolExecutor(1) as threads:
        trim = threads.submit(_insist, gate, 30)
        while not gate._insisting:
            time.sleep(0.001)
        assert not gate.enter()
        begun = time.monotonic()
        gate.leave()
        assert trim.result(30)
    assert time.monotonic() - begun < 10


def test_who_waits_until_the_gate_is_empty_holds_nobody_back():
    gate = Gate()
    leave = gate.enter() and gate.leave
    with ThreadPoolExecutor(1) as threads:
        waiting = threads.submit(gate.wait_until_empty, 30)
        while not gate._waiting:
            time.sleep(0.001)
        with gate.reading():
            leave()
            assert not waiting.done()
        assert waiting.result(30)
    with gate.reading():
        assert not gate.wait_until_empty(0.01)
