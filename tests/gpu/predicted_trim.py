"""Fills the cache, trims, and prints what was predicted and what came; see test_memory.py.

In a process of its own, because whether segments are expandable is settled at its first allocation.
"""

import json
import sys

import torch

from farpoint_server.memory.cuda import CudaAllocator
from farpoint_server.memory.host import Heap

MIB = 1 << 20


def main() -> None:
    device = torch.device("cuda", 0)
    allocator = CudaAllocator(device, 1.0, expandable=sys.argv[1] == "True", heap=Heap())
    sizes = [3, 0.2, 9, 40, 5, 130, 0.7, 17]
    kept, dropped = [], []
    for i, size in enumerate(sizes * 4):
        block = torch.empty(int(size * MIB), dtype=torch.uint8, device=device)
        (kept if i % 3 == 0 else dropped).append(block)
    del block
    dropped.clear()
    before = allocator.stats()
    allocator.trim()
    after = allocator.stats()
    report = {
        "predicted": before.releasable,
        "fell": before.reserved - after.reserved,
        "left": after.releasable,
    }
    print(json.dumps(report))


if __name__ == "__main__":
    main()
