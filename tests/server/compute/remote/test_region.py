"""Blocks of shared memory: none overlap, all come back, and untouched ones take no memory."""

import os
import random
import socket
import threading
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from farpoint_server.compute.arrays import Pinned, Shared, joined
from farpoint_server.compute.remote import region as region_module
from farpoint_server.compute.remote.region import (
    PINNED_BYTES,
    DamagedError,
    Mapped,
    Region,
    arrange,
    read,
    specs_of,
    write,
)

MIB = 1 << 20


def test_blocks_never_overlap_and_all_memory_comes_back():
    choices, region = random.Random(3), Region(MIB)
    held: list[tuple[int, int]] = []
    refused = 0
    for _ in range(3000):
        if held and choices.random() < 0.5:
            region.free(held.pop(choices.randrange(len(held))))
            continue
        block = region.take(choices.randrange(1, MIB // 8))
        if block is None:
            refused += 1
            continue
        held.append(block)
        ends = sorted((offset, offset + size) for offset, size in held)
        assert all(end <= begin for (_, end), (begin, _) in pairwise(ends))
        assert ends[0][0] >= 0
        assert ends[-1][1] <= MIB
    assert refused > 50
    for block in held:
        region.free(block)
    assert region.take(MIB) == (0, MIB)


def mapped_region(size: int) -> tuple[Region, Mapped]:
    """A region, and what its engine makes of it."""
    region, ends = Region(size), socket.socketpair()
    region.hand_over(ends[0], 1)
    _, (descriptor,), _, _ = socket.recv_fds(ends[1], 1, 1)
    try:
        return region, Mapped(descriptor)
    finally:
        os.close(descriptor)
        for end in ends:
            end.close()


def test_a_lent_block_comes_back_with_the_last_array_in_it():
    region = Region(4096)
    block = region.take(4096)
    first, second = read(region.lend(block), [["<f4", 8], ["<i8", 2, 3]])
    part = second[1:].reshape(-1)
    del first, second
    assert region.take(64) is None
    del part
    assert region.take(4096) == block


def test_pages_are_those_that_were_touched_and_free_ones_are_returned():
    region = Region(64 * MIB)
    region.kept_bytes = 0
    assert region.resident_bytes == 0
    first, second = region.take(8 * MIB), region.take(8 * MIB)
    for block in (first, second):
        region.bytes_of(block)[:] = 1
    assert region.resident_bytes == 16 * MIB
    region.free(first)
    region.release()
    assert region.resident_bytes == 8 * MIB
    assert region.bytes_of(second).all()


def test_arrays_come_back_as_they_were():
    arrays = [
        np.arange(7, dtype=np.int64),
        np.float16([[1, 2], [3, 4]]),
        np.zeros((0, 3), np.float32),
        np.array(True),
        np.arange(6, dtype=np.float64).reshape(2, 3)[:, ::2],
    ]
    region = Region(4096)
    block = region.bytes_of(region.take(arrange(arrays).size))
    write(block, arrays, arrange(arrays))
    for found in (read(block, specs_of(arrays)), read(block, specs_of(arrays), Shared)):
        for ours, theirs in zip(found, arrays, strict=True):
            np.testing.assert_array_equal(ours, theirs)
            assert ours.dtype == theirs.dtype


@pytest.mark.parametrize(
    "spec",
    [
        ["<f4", 1025],
        ["<f4", -1],
        ["<f4", 2, -600],
        ["<f4", 1 << 70],
        ["<f4", 1 << 47, 1 << 47],
        ["<f4", 1.0],
        ["<f4", True],
        ["<f4", "3"],
        ["O", 1],
        ["|V4", 1],
        ["<f4,<f4", 1],
        ["", 1],
        [None, 1],
        [["<f4"], 1],
        [],
        ["<f4", *[1] * 33],
    ],
)
def test_what_exceeds_a_block_or_is_no_array_of_numbers_is_refused(spec):
    block = np.zeros(4096, np.uint8)
    with pytest.raises((DamagedError, ValueError, TypeError)):
        read(block, [spec])
    with pytest.raises(DamagedError):
        read(block, [["<f4", 1024], ["|i1", 1]])


def test_integers_of_another_process_are_copied_at_once_and_coordinates_by_the_device():
    """A value that changes between two reads cannot lead a kernel beyond its memory."""
    region, mapped = mapped_region(4096)
    points, table = mapped.read(0, 4096, [["<f4", 4, 3], ["<i8", 2]])
    part = joined([points[1:3]])
    batch = joined([points[:2], points[2:]])
    region.bytes_of((0, 4096))[:] = 1
    assert (points != 0).all()
    assert (table == 0).all()
    assert (part == 0).all()
    assert (batch == 0).all()
    assert type(points) is Shared
    assert type(part) is type(batch) is type(table) is np.ndarray


def mappings() -> int:
    """Of memory of front ends, in this process."""
    return Path("/proc/self/maps").read_text().count("farpoint-calls")


def test_memory_of_a_front_end_that_has_left_is_unmapped_once_nothing_refers_to_it():
    before = mappings()
    region, mapped = mapped_region(4096)
    (points,) = mapped.read(0, 4096, [["<f4", 4, 3]])
    assert mappings() == before + 2
    mapped.drop()
    with pytest.raises(DamagedError):
        mapped.block(0, 64)
    del region
    assert mappings() == before + 1
    del points
    assert mappings() == before


class Pins:
    """In place of the library that locks memory for a GPU."""

    def __init__(self, code: int) -> None:
        self.code = code
        self.pinned: dict[int, int] = {}
        self.ended = threading.Event()

    def farpoint_pin(self, address: int, size: int, gpu: int) -> int:
        assert gpu == 3
        if not self.code:
            self.pinned[address] = size
        return self.code

    def farpoint_unpin(self, address: int, gpu: int) -> int:
        assert gpu == 3
        assert mappings() > 0
        del self.pinned[address]
        self.ended.set()
        return 0

    def farpoint_cuda_error(self, _: int) -> bytes:
        return b"no memory to lock"


def test_the_beginning_is_locked_until_nothing_refers_to_it(monkeypatch):
    pins = Pins(0)
    monkeypatch.setattr(region_module, "library", lambda: pins)
    _, mapped = mapped_region(2 * PINNED_BYTES)
    mapped.pin(3)
    assert [*pins.pinned.values()] == [PINNED_BYTES]
    inside, beyond = (
        mapped.read(at, 4096, [["<f4", 4, 3]])[0] for at in (PINNED_BYTES - 4096, PINNED_BYTES - 64)
    )
    assert (type(inside), type(beyond)) == (Pinned, Shared)
    mapped.drop()
    del beyond
    assert pins.pinned
    del inside
    assert pins.ended.wait(30)
    assert not pins.pinned


def test_arrays_are_copied_where_no_memory_can_be_locked(monkeypatch):
    monkeypatch.setattr(region_module, "library", lambda: Pins(2))
    _, mapped = mapped_region(4096)
    mapped.pin(3)
    (points,) = mapped.read(0, 4096, [["<f4", 4, 3]])
    assert type(points) is Shared


def test_pages_that_are_locked_are_not_returned():
    region = Region(2 * PINNED_BYTES)
    block = region.take(2 * PINNED_BYTES)
    region.bytes_of(block)[:] = 1
    region.free(block)
    region.release()
    assert region.resident_bytes == PINNED_BYTES
    assert region.bytes_of((0, PINNED_BYTES)).all()
