"""A planted fault of each kind is found; the same program without it is clean."""

import pytest

UPLOAD = """
host = torch.arange(4096.).pin_memory()
side = torch.cuda.Stream()
device = torch.zeros(4096, device="cuda")
torch.cuda.synchronize()
with torch.cuda.stream(side):
    device.copy_(host, non_blocking=True)
{order}
total = (device * 2).sum()
assert total.item() > 0 or {faulty}
"""
REUSE = """
side = torch.cuda.Stream()
block = torch.ones(1 << 20, device="cuda")
torch.cuda.synchronize()
with torch.cuda.stream(side):
    torch.cuda._sleep(100_000_000)
    total = block.sum()
{keep}
del block
torch.zeros(1 << 20, device="cuda")
torch.cuda.synchronize()
"""
DOWNLOAD = """
device = torch.ones(4096, device="cuda")
host = torch.zeros(4096).pin_memory()
torch.cuda._sleep(100_000_000)
host.copy_(device, non_blocking=True)
{wait}
float(host[7])
torch.cuda.synchronize()
"""
OVERWRITE = """
device = torch.ones(4096, device="cuda")
host = torch.zeros(4096).pin_memory()
torch.cuda._sleep(100_000_000)
device.copy_(host, non_blocking=True)
{wait}
host[7] = 1
torch.cuda.synchronize()
"""
UNWRITTEN = """
rows = torch.empty(1000, 3, device="cuda")
{write}
import farpoint_ops
farpoint_ops.furthest_point_sample(rows[None], 5).cpu()
"""
LEAK = """
address = ctypes.c_void_p()
assert runtime.cudaMalloc(ctypes.byref(address), ctypes.c_size_t(1000)) == 0
{free}
"""
PAIRS = [
    (UPLOAD, {"order": "torch.cuda.current_stream().wait_stream(side)", "faulty": "False"},
     {"order": "", "faulty": "True"}, "race"),
    (REUSE, {"keep": "block.record_stream(side)"}, {"keep": ""}, "race"),
    (DOWNLOAD, {"wait": "torch.cuda.synchronize()"}, {"wait": ""}, "pending"),
    (OVERWRITE, {"wait": "torch.cuda.synchronize()"}, {"wait": ""}, "pending"),
    (UNWRITTEN, {"write": "rows.normal_()"}, {"write": ""}, "uninitialized"),
    (LEAK, {"free": "assert runtime.cudaFree(address) == 0"}, {"free": ""}, "leak"),
]  # fmt: skip
NAMES = ("upload", "record_stream", "download", "overwrite", "unwritten", "leak")


@pytest.mark.parametrize(("program", "right", "wrong", "kind"), PAIRS, ids=NAMES)
def test_a_planted_fault_is_found(run, program, right, wrong, kind):
    clean = run(program.format(**right))
    assert (clean.status, clean.findings) == (0, ""), clean.output
    faulty = run(program.format(**wrong), SEED=1)
    assert f" {kind}: " in faulty.findings, faulty.output
    assert faulty.counters[f"error {kind}"] > 0
