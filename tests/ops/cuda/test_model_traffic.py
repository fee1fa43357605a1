"""The traffic counter on accesses whose sectors and bank conflicts are known.

`python -m benchmarks.cuda.traffic` counts the ops' kernels in this way.
"""

import numpy as np
import pytest
from tests.support.cuda.model import Executed, executing, has_nvcc
from tests.support.cuda.on_cpu import call
from tests.support.cuda.traffic import Traffic, aligned, counted

# The first test builds the model.
pytestmark = [
    pytest.mark.skipif(not has_nvcc(), reason="needs nvcc"),
    pytest.mark.timeout(600),
]
PATTERNS = Executed("patterns", frozenset({"patterns_kernel"}), counting=True)
STORED = 4  # sectors of 32 results of 4 bytes


def traffic_of(name: str, *arguments: object) -> Traffic:
    with executing(PATTERNS):
        counted()
        call(name, *arguments)
        return counted()


def read(
    stride: int = 1, offset: int = 0, threads: int = 32, rounds: int = 1, step: int = 0
) -> Traffic:
    values = aligned((threads * stride + offset + rounds * step,), np.float32)
    out = aligned((threads,), np.float32)
    return traffic_of("read_global", values, out, threads, stride, offset, rounds, step)


@pytest.mark.parametrize(
    ("stride", "offset", "sectors"), [(1, 0, 4), (1, 1, 5), (2, 0, 8), (8, 0, 32), (0, 3, 1)]
)
def test_sectors_that_a_warp_touches(stride: int, offset: int, sectors: int) -> None:
    found = read(stride, offset)
    assert found.requests == 2
    assert found.sectors == found.l1_sectors == found.launch_sectors == sectors + STORED
    assert found.ideal_sectors == 4 + STORED
    assert found.useful_bytes == 2 * 32 * 4


def test_a_sector_that_is_read_again_is_moved_once_with_l1() -> None:
    found = read(rounds=5)
    assert found.requests == 6
    assert found.sectors == 5 * 4 + STORED
    assert found.l1_sectors == found.launch_sectors == 4 + STORED


def test_rounds_further_on_are_other_sectors() -> None:
    assert read(rounds=5, step=32).l1_sectors == 5 * 4 + STORED


def test_warps_are_requests_of_their_own_and_share_l1() -> None:
    found = read(stride=0, threads=64)
    assert found.requests == 2 * 2
    assert found.sectors == 2 + 2 * STORED
    assert found.l1_sectors == 1 + 2 * STORED


def test_lanes_that_store_in_different_rounds_are_different_requests() -> None:
    found = traffic_of("write_in_turns", aligned((32,), np.int32))
    assert (found.requests, found.sectors, found.launch_sectors) == (32, 32, 4)


@pytest.mark.parametrize(("words", "sectors"), [(32, 4), (1, 1), (9, 2)])
def test_sectors_of_atomic_additions(words: int, sectors: int) -> None:
    found = traffic_of("add_to_global", aligned((32,), np.int32), words)
    assert (found.requests, found.sectors, found.l1_sectors) == (1, sectors, sectors)


@pytest.mark.parametrize(
    ("name", "dtype", "width", "stride", "wavefronts", "ideal"),
    [
        ("words", np.float32, 1, 1, 1, 1),
        ("words", np.float32, 1, 2, 2, 1),
        ("words", np.float32, 1, 32, 32, 1),
        ("words", np.float32, 1, 33, 1, 1),
        ("doubles", np.float64, 1, 1, 2, 2),
        ("doubles", np.float64, 1, 2, 4, 2),
        ("doubles", np.float64, 1, 16, 32, 2),
        ("vectors", np.float32, 4, 1, 4, 4),
        ("vectors", np.float32, 4, 8, 32, 4),
        ("vectors", np.float32, 4, 9, 4, 4),
    ],
)
def test_bank_conflicts(
    name: str, dtype: type, width: int, stride: int, wavefronts: int, ideal: int
) -> None:
    """A store and a load."""
    found = traffic_of(f"{name}_through_shared", aligned((32, width), dtype), stride)
    assert found.shared_requests == 2
    assert (found.wavefronts, found.ideal_wavefronts) == (2 * wavefronts, 2 * ideal)


@pytest.mark.parametrize(("words", "turns"), [(32, 1), (16, 2), (1, 32)])
def test_atomic_additions_to_one_word_of_shared_memory_take_turns(words: int, turns: int) -> None:
    found = traffic_of("add_to_shared", aligned((32,), np.int32), words)
    assert (found.shared_requests, found.wavefronts) == (3, turns + 2)


def test_kernels_that_do_not_count_leave_no_trace() -> None:
    with executing(Executed("uncounted", frozenset({"patterns_kernel"}))):
        call("words_through_shared", aligned((32,), np.float32), 1)
        found = counted()
    assert [getattr(found, name) for name, _ in Traffic._fields_] == [0] * 10
