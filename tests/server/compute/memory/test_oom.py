"""Memory that runs out: failed and answered requests, and the state afterwards."""

import gc

import pytest
import torch
from tests.support.memory.simulation import GIB, MIB, Request, Simulation, Tensor, one

from farpoint_server.compute.memory.oom import DeviceLost, OutOfMemory, is_out_of_memory, is_sticky

BATCH = [one("a", 3), Request("b", (MIB, 5 * MIB)), one("c", 40), one("d", 0.1)]
ALLOCATIONS = 5


@pytest.mark.parametrize("number", range(1, ALLOCATIONS + 1))
def test_one_failed_allocation_fails_no_request_and_leaves_nothing_behind(number):
    simulation = Simulation()
    simulation.allocator.fail_at = {number}
    gc.disable()
    try:
        assert simulation.run(*BATCH) == ["a", "b", "c", "d"]
        assert not simulation.tensors
    finally:
        gc.enable()
    assert simulation.allocator.stats().allocated == 0
    assert simulation.manager.snapshot.oom_count == 1


@pytest.mark.parametrize("bad", range(len(BATCH)))
def test_the_request_that_never_fits_fails_alone(bad):
    simulation = Simulation(total=GIB)
    batch = list(BATCH)
    batch[bad] = Request("bad", (2 * GIB,))
    answers = simulation.run(*batch)
    assert isinstance(answers[bad], OutOfMemory)
    others = [answer for i, answer in enumerate(answers) if i != bad]
    assert others == [request.name for i, request in enumerate(BATCH) if i != bad]
    assert not simulation.tensors


def test_memory_in_reference_cycles_is_free_before_the_second_attempt():
    simulation = Simulation(total=100 * MIB)
    cycle = [Tensor(simulation.allocator, 60 * MIB)]
    cycle.append(cycle)
    del cycle
    gc.disable()
    try:
        assert simulation.run(one("a", 60)) == ["a"]
    finally:
        gc.enable()


def test_an_error_that_is_not_about_memory_passes_through():
    simulation = Simulation()

    def fail() -> None:
        raise ValueError("a bug")

    simulation.meanwhile = fail
    with pytest.raises(ValueError, match="a bug"):
        simulation.run(one("a", 1))
    assert simulation.manager.snapshot.oom_count == 0
    assert simulation.gate.readers == 0


def test_a_sticky_error_loses_the_device_for_good():
    simulation = Simulation()

    def fail() -> None:
        raise torch.AcceleratorError("CUDA error: an illegal memory access was encountered")

    simulation.meanwhile = fail
    with pytest.raises(DeviceLost, match="illegal"):
        simulation.run(one("a", 1))
    simulation.meanwhile = lambda: None
    with pytest.raises(DeviceLost, match="earlier"):
        simulation.run(one("b", 1))
    assert simulation.manager.is_lost
    assert simulation.manager.poll(waiting=0) is None
    assert simulation.manager.trim() is None
    assert simulation.trims("request", *("idle", "hard")) == []


def test_a_batch_is_cut_where_it_would_take_more_than_half_of_what_is_there():
    simulation = Simulation(total=1000 * MIB, bounded=True)
    sizes = []
    simulation.meanwhile = lambda: sizes.append(simulation.allocator.stats().allocated)
    names = list("abcdef")
    assert simulation.run(*(one(name, 200) for name in names)) == names
    assert sizes == [200 * MIB, 400 * MIB] * 2


def test_room_that_other_processes_took_makes_requests_fail_until_it_is_back():
    simulation = Simulation(total=1000 * MIB, others=900 * MIB, bounded=True)
    (answer,) = simulation.run(one("a", 200))
    assert isinstance(answer, OutOfMemory)
    assert simulation.allocator.allocations == 0
    assert simulation.manager.snapshot.refused == 1
    simulation.allocator.others = 0
    simulation.clock.now += 1
    assert simulation.run(one("a", 200)) == ["a"]


def test_room_is_made_before_a_batch_so_that_torch_never_flushes_within_it():
    simulation = Simulation(total=1000 * MIB, bounded=True)
    simulation.run(one("small", 300), one("small too", 100))
    simulation.run(one("large", 700))
    assert [trim["reason"] for trim in simulation.trims("room")] == ["room"]
    assert simulation.allocator.retries == 0


def test_a_request_of_many_clouds_is_cut_where_it_is_predicted_not_to_fit():
    simulation = Simulation(total=1000 * MIB, others=700 * MIB, bounded=True)
    assert simulation.run(Request("a", (200 * MIB,) * 4)) == ["a.0.0+a.0.1+a.1.0+a.1.1"]
    assert simulation.manager.snapshot.oom_count == 0
    (answer,) = simulation.run(Request("b", (100 * MIB, 400 * MIB)))
    assert isinstance(answer, OutOfMemory)
    assert simulation.manager.snapshot.refused == 1


@pytest.mark.parametrize(
    ("error", "ran_out", "sticky"),
    [
        (torch.OutOfMemoryError("CUDA out of memory"), True, False),
        (MemoryError(), True, False),
        (torch.AcceleratorError("CUDA error: an illegal memory access"), False, True),
        (RuntimeError("shape"), False, False),
    ],
)
def test_running_out_is_recognized_and_not_sticky(error, ran_out, sticky):
    assert (is_out_of_memory(error), is_sticky(error)) == (ran_out, sticky)


def test_torch_running_out_of_host_memory_is_recognized():
    with pytest.raises(RuntimeError) as caught:
        torch.empty(1 << 55)
    assert (is_out_of_memory(caught.value), is_sticky(caught.value)) == (True, False)
