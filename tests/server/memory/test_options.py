"""What the operator's options and the device make of a memory manager, and options of malloc."""

import ctypes
from dataclasses import replace

import pytest
import torch

from farpoint_server.memory import monitor
from farpoint_server.memory.gate import Gate
from farpoint_server.memory.host import Glibc
from farpoint_server.memory.managers import manager_of, thresholds_of
from farpoint_server.memory.options import Options
from farpoint_server.memory.policy import CPU_THRESHOLDS, CUDA_THRESHOLDS

CPU, CUDA = torch.device("cpu"), torch.device("cuda:0")


def test_each_kind_of_device_has_its_thresholds():
    assert thresholds_of(CPU, None) == CPU_THRESHOLDS
    assert thresholds_of(CUDA, None) == CUDA_THRESHOLDS
    assert thresholds_of(CUDA, 7.0) == replace(CUDA_THRESHOLDS, idle_s=7.0)
    assert thresholds_of(CPU, 0.0) == replace(CPU_THRESHOLDS, idle_s=0.0)


@pytest.mark.parametrize(("limit", "bounded"), [(None, False), (1 << 40, True)])
def test_a_cpu_keeps_no_reserve_and_refuses_nothing_without_a_limit(limit, bounded):
    options = Options(limit_bytes=limit, reserve_bytes=1 << 30)
    budget = manager_of(CPU, options, Gate())._budget
    assert (budget.bounded, budget.limit, budget._reserve) == (bounded, limit, 0)


@pytest.mark.parametrize(("sharers", "expected"), [(1, 3 << 30), (3, 1 << 30)])
def test_processes_that_share_a_device_divide_its_limit(sharers, expected):
    memory = manager_of(CPU, Options(limit_bytes=3 << 30), Gate(), sharers=sharers)
    assert memory._budget.limit == expected
    assert manager_of(CPU, Options(), Gate(), sharers=sharers)._budget.limit is None


def test_the_options_by_default():
    assert Options() == Options(None, None, reserve_bytes=512 << 20, enabled=True)


def test_the_monitor_looks_four_times_a_second():
    assert monitor.POLL_S == 0.25


class Library:
    """glibc's functions; notes what mallopt is given and refuses one option."""

    class Function:
        def __call__(self, *_):
            return b"2.41"

    def __init__(self) -> None:
        self.given: dict[int, int] = {}
        self.mallinfo2, self.malloc_trim = self.Function(), self.Function()
        self.gnu_get_libc_version = self.Function()

    def mallopt(self, option: int, value: int) -> int:
        self.given[option] = value
        return int(option != -1)


def test_the_options_are_those_of_malloc_h():
    """M_ARENA_MAX is -8, M_MMAP_MAX -4 and M_TRIM_THRESHOLD -1."""
    library = Library()
    set_ = Glibc(library).set_options({"PATH": "/bin"})
    assert library.given == {-8: 1, -4: 0, -1: 2**31 - 1}
    assert set_ == {"arena_max": 1, "mmap_max": 0}
    assert library.malloc_trim.argtypes == [ctypes.c_size_t]


@pytest.mark.parametrize("name", ["MALLOC_ARENA_MAX", "GLIBC_TUNABLES"])
def test_an_operator_with_an_opinion_is_left_alone(name):
    library = Library()
    assert Glibc(library).set_options({name: "1"}) == {}
    assert not library.given
