"""Batches to a GPU and back, on a fake one that is as late as it may be; pinned buffers."""

from concurrent.futures import Future
from contextlib import contextmanager

import numpy as np
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support.compute.fake_device import FakeDevice

from farpoint_server.compute.arrays import Pinned
from farpoint_server.compute.memory.gate import Gate
from farpoint_server.compute.transfer.queue import SLOTS, TransferQueue
from farpoint_server.compute.work import APART, Joined, Launch

RANDOM = np.random.default_rng(3)
BUFFERS_PER_TRANSFER = 2
MOST_BUFFERS = SLOTS * BUFFERS_PER_TRANSFER
LONG_S = 20


class Trip:
    """Transfers to a fake device behind the gate of a memory manager."""

    def __init__(self, device: FakeDevice) -> None:
        self.device = device
        self.gate = Gate()
        self.transfers = TransferQueue(device, self.gate.hold_shared)

    def run(self, batch):
        answer = Future()

        def finish(outputs, error):
            answer.set_exception(error) if error else answer.set_result(outputs[0])

        with self.gate.reading():
            self.transfers.start([Launch(kernel, Joined(batch))], finish)
        return answer

    def check(self) -> None:
        """The invariants at any moment."""
        assert len(self.device.pinned_sizes) <= MOST_BUFFERS
        assert self.transfers.in_flight <= SLOTS
        with self.gate.exclusive() as entered:
            assert not (entered and self.device.pending), "a trim could run during a forward"

    def end(self) -> None:
        self.transfers.wait(0)
        self.check()
        assert self.gate.readers == 0
        self.transfers.release_buffers()
        assert self.device.pinned_sizes == [], "a buffer that nothing uses was kept"
        self.transfers.stop()


def kernel(points: torch.Tensor, rows: torch.Tensor) -> list[torch.Tensor]:
    return [points.sum(1) * 2, rows.flip(0)]


def batch(*lengths: int, kind: type[np.ndarray] = np.ndarray):
    made = [RANDOM.integers(0, 99, (length, 3)).astype(np.float32) for length in lengths]
    points = [array.view(kind) for array in made]
    return points, [np.arange(sum(lengths))]


def expected(batch):
    points = np.concatenate(batch[0])
    return [points.sum(1) * 2, batch[1][0][::-1]]


def assert_answers(answers, batches) -> None:
    for answer, made in zip(answers, batches, strict=True):
        for got, wanted in zip(answer.result(LONG_S), expected(made), strict=True):
            np.testing.assert_array_equal(got, wanted)


lengths = st.lists(st.integers(0, 9000), min_size=1, max_size=3)


@settings(max_examples=30, deadline=None)
@given(
    st.lists(lengths, min_size=1, max_size=7),
    st.integers(),
    st.sampled_from([0, 0.3, 0.7, 1]),
    st.sampled_from([np.ndarray, Pinned]),
)
def test_every_answer_is_right_however_late_the_device_is(sizes, seed, hurry, kind):
    """Nothing is read before it is there, nor written or dropped before it was read."""
    trip = Trip(FakeDevice(seed, hurry))
    batches = [batch(*each, kind=kind) for each in sizes]
    answers = []
    for made in batches:
        answers.append(trip.run(made))
        trip.check()
    assert_answers(answers, batches)
    trip.end()


@settings(max_examples=40, deadline=None)
@given(st.integers(), st.integers(0, 60), st.sampled_from([0, 0.5, 1]))
def test_a_submission_that_fails_anywhere_leaves_nothing_behind(seed, fails_at, hurry):
    trip = Trip(FakeDevice(seed, hurry))
    asked = 0

    def refuse(what: str) -> None:
        nonlocal asked
        if what in ("record", "synchronize"):
            return  # what only a lost GPU refuses
        asked += 1
        if asked == fails_at:
            raise torch.OutOfMemoryError("CUDA out of memory")

    trip.device.refuse = refuse
    answers, done = [], []
    for made in [batch(1000), batch(9000, 5), batch(2), batch(7000)]:
        try:
            answers.append(trip.run(made))
            done.append(made)
        except torch.OutOfMemoryError:
            assert asked == fails_at
        trip.check()
    assert len(done) >= 3
    assert_answers(answers, done)
    trip.end()


@contextmanager
def two_batches_at(paused: str):
    """Two batches, as far as they come while a stream stands still; answered once it goes on."""
    trip = Trip(FakeDevice(hurry=0))
    trip.device.pause(paused)
    batches = [batch(100), batch(200)]
    answers = [trip.run(made) for made in batches]
    trip.device.settle()
    yield trip.device.log, answers
    trip.device.resume(paused)
    assert_answers(answers, batches)
    trip.end()


def test_the_next_batch_is_uploaded_while_the_kernels_of_one_run():
    with two_batches_at("compute") as (log, answers):
        assert log == ["upload", "upload"]
        assert not any(answer.done() for answer in answers)


def test_one_batch_is_downloaded_while_the_kernels_of_the_next_run():
    with two_batches_at("download") as (log, _):
        assert log.count("compute") == 2
        assert "download" not in log


def test_a_batch_is_one_copy_each_way_and_makes_no_event():
    trip = Trip(FakeDevice())
    made, points = trip.device.events, np.ones((5, 3), np.float32)
    launch = Launch(lambda *each: [torch.cat(each).sum(1)], Joined([[points]] * 3))
    for _ in range(3):
        answer = Future()
        with trip.gate.reading():
            trip.transfers.start([launch], lambda outputs, _: answer.set_result(outputs))  # noqa: B023
        assert answer.result(LONG_S)[0][0].tolist() == [3] * 15
    assert trip.device.log == ["upload", "compute", "download"] * 3
    assert trip.device.events == made == SLOTS
    trip.end()


def test_large_pinned_parts_are_uploaded_from_where_they_are_and_all_else_together():
    rows = APART // 12 + 1
    trip = Trip(FakeDevice(hurry=0))
    trip.device.pause("upload")
    made = batch(rows, 100, rows, kind=Pinned)
    answer = trip.run(made)
    made[0][0][:], made[0][1][:] = 1, 2  # the second one is staged by now
    made[1][0][:] = 3
    trip.device.resume("upload")
    sums, _ = answer.result(LONG_S)
    assert (sums[:rows] == 6).all()
    assert not (sums[rows:][:100] == 12).all()
    assert trip.device.log.count("upload") == 4  # between and behind the large ones too
    trip.end()


def test_launches_of_one_batch_follow_each_other_in_one_transfer():
    trip = Trip(FakeDevice())
    batches = [batch(100), batch(20, 30)]
    answer = Future()
    with trip.gate.reading():
        launches = [Launch(kernel, Joined(made)) for made in batches]
        trip.transfers.start(launches, lambda outputs, _: answer.set_result(outputs))
    for got, made in zip(answer.result(LONG_S), batches, strict=True):
        for output, wanted in zip(got, expected(made), strict=True):
            np.testing.assert_array_equal(output, wanted)
    assert trip.device.log.count("upload") == 1
    trip.end()


def test_buffers_are_used_again_and_given_back_when_asked():
    trip = Trip(FakeDevice())
    for _ in range(10):
        assert_answers([trip.run(made := batch(20_000))], [made])
        trip.transfers.wait(0)
    used = trip.device.pinned_sizes
    assert len(used) == BUFFERS_PER_TRANSFER
    assert all(size.bit_count() == 1 for size in used)
    trip.transfers.release_buffers()
    assert trip.device.pinned_sizes == []
    trip.end()
