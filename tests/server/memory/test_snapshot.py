"""What a snapshot says of a device that has not worked yet, and how trims are counted."""

from farpoint_server.memory.allocator import Room, Stats
from farpoint_server.memory.prediction import Correction
from farpoint_server.memory.snapshot import MemorySnapshot, Trims


def test_counters_begin_at_zero():
    assert vars(MemorySnapshot("cpu")) == {
        "device": "cpu",
        "taken": 0.0,
        "stats": Stats(),
        "room": Room(0, 0),
        "limit": None,
        "demand": 0,
        "correction": Correction(),
        "trims": {},
        "oom_count": 0,
        "refused": 0,
        "resident": 0,
        "healthy": True,
    }


def test_trims_are_added_up_and_the_longest_is_kept():
    trims = Trims().add(2.0, 10).add(1.0, 5)
    assert trims == Trims(count=2, seconds=3.0, longest_s=2.0, returned_bytes=15)
