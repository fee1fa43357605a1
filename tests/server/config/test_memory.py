"""Flags of the memory manager, and what they become on each device."""

import pytest
import torch

from farpoint_server.config.cli import parse
from farpoint_server.config.limits import MemorySettings
from farpoint_server.memory.manager import thresholds_of

CPU, GPU = torch.device("cpu"), torch.device("cuda", 0)
MIB = 1 << 20


def test_what_is_not_set_goes_by_the_device():
    options = parse([]).memory_options()
    on_cpu, on_gpu = thresholds_of(CPU, options.idle_s), thresholds_of(GPU, options.idle_s)
    assert (on_cpu.idle_s, on_cpu.interval_s, on_cpu.min_trim_bytes) == (2, 2, 8 * MIB)
    assert (on_gpu.idle_s, on_gpu.interval_s, on_gpu.min_trim_bytes) == (30, 10, 64 * MIB)
    assert (options.limit_bytes, options.reserve_bytes, options.enabled) == (None, 512 * MIB, True)


def test_what_is_set_counts_on_both():
    flags = ["--memory-idle-s", "7", "--memory-reserve-mib", "0"]
    flags += ["--memory-limit-mib", "100", "--memory-policy", "off"]
    options = parse(flags).memory_options()
    for device in (CPU, GPU):
        assert thresholds_of(device, options.idle_s).idle_s == 7
    assert (options.limit_bytes, options.reserve_bytes) == (100 * MIB, 0)
    assert not options.enabled


@pytest.mark.parametrize("flag", ["--memory-limit-mib", "--memory-idle-s"])
def test_zero_does_not_mean_the_default(flag, capsys):
    with pytest.raises(SystemExit):
        parse([flag, "0"])
    assert f"{flag} (or FARPOINT_MEMORY" in capsys.readouterr().err


def test_there_are_five_settings_with_these_names():
    assert set(MemorySettings.model_fields) == {
        "memory_policy",
        "memory_limit_mib",
        "memory_reserve_mib",
        "memory_idle_s",
        "memory_expandable_segments",
    }
