"""Flags of the memory manager, and what they become on each device."""

import torch

from farpoint_server.config.cli import parse
from farpoint_server.memory.options import limits_of

CPU, CARD = torch.device("cpu"), torch.device("cuda", 0)
MIB = 1 << 20


def test_what_is_not_set_goes_by_the_device():
    limits = parse([]).memory_options().limits
    on_cpu, on_card = limits_of(CPU, limits), limits_of(CARD, limits)
    assert (on_cpu.idle_s, on_cpu.interval_s, on_cpu.min_trim_bytes) == (2, 2, 8 * MIB)
    assert (on_card.idle_s, on_card.interval_s, on_card.min_trim_bytes) == (30, 10, 64 * MIB)


def test_what_is_set_counts_on_both():
    flags = ["--memory-idle-s", "7", "--memory-hard-mib", "3", "--memory-min-trim-mib", "5"]
    flags += ["--memory-limit-mib", "100", "--memory-policy", "off"]
    options = parse(flags).memory_options()
    for device in (CPU, CARD):
        limits = limits_of(device, options.limits)
        assert (limits.idle_s, limits.hard_bytes, limits.min_trim_bytes) == (7, 3 * MIB, 5 * MIB)
    assert options.limit_bytes == 100 * MIB
    assert not options.enabled
