"""The software CUDA runtime answers as the documented one does, and finds planted faults."""

import subprocess

import pytest
from tests.softgpu.conftest import PYTHON, ROOT


@pytest.mark.parametrize("option", ["", "--kernels"])
def test_the_first_steps_of_gpu_check_see_a_device_with_kernels(option):
    script = ROOT / "tools" / "gpu_device.py"
    ended = subprocess.run([PYTHON, script, *option.split()], capture_output=True, text=True)
    assert ended.returncode == 0, ended.stderr
    assert ("Software H100, sm_90" in ended.stdout) is not bool(option)


def test_the_benchmarks_of_gpu_check_run_up_to_their_timing(run, tmp_path):
    """On sizes that take seconds here."""
    ended = run(
        f"""
        import pathlib, sys
        from benchmarks.cuda import __main__ as bench, gather_scatter, searches, timing
        bench.RESULTS = pathlib.Path({str(tmp_path)!r})
        bench.SIZES, bench.BATCHED, bench.BATCHES = [(600, 20)], [(300, 20)], [2]
        searches.SIZES = [(2, 300, 20)]
        gather_scatter.COPIED, gather_scatter.BATCH, gather_scatter.POINTS = 1000, 2, 300
        gather_scatter.CHANNELS, gather_scatter.SAMPLES = 3, 8
        gather_scatter.SCATTERS = [
            (what, 2, 3, 300, 64, make) for what, *_, make in gather_scatter.SCATTERS]
        timing.rounds_for = lambda once: 1
        sys.argv = ["cuda", "--seconds", "60"]
        bench.main()
        """,
        timeout_s=300,
        PROCESSORS=4,
    )
    assert ended.status == 0, ended.output
    for section in ("gathers", "scatters", "batches", "methods", "searches"):
        assert f"{section}: {tmp_path}" in ended.output


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
DOWNLOAD = """
device = torch.ones(4096, device="cuda")
host = torch.zeros(4096).pin_memory()
torch.cuda._sleep(100_000_000)
host.copy_(device, non_blocking=True)
{wait}
float(host[7])
torch.cuda.synchronize()
"""
UNWRITTEN = """
rows = torch.empty(1000, 3, device="cuda")
{write}
import farpoint_ops
farpoint_ops.furthest_point_sample(rows[None], 5).cpu()
"""
PAIRS = [
    (UPLOAD, {"order": "torch.cuda.current_stream().wait_stream(side)", "faulty": "False"},
     {"order": "", "faulty": "True"}, "race"),
    (DOWNLOAD, {"wait": "torch.cuda.synchronize()"}, {"wait": ""}, "pending"),
    (UNWRITTEN, {"write": "rows.normal_()"}, {"write": ""}, "uninitialized"),
]  # fmt: skip
NAMES = ("upload", "download", "unwritten")


@pytest.mark.parametrize(("program", "right", "wrong", "kind"), PAIRS, ids=NAMES)
def test_a_planted_fault_is_found(run, program, right, wrong, kind):
    clean = run(program.format(**right))
    assert (clean.status, clean.findings) == (0, ""), clean.output
    faulty = run(program.format(**wrong), SEED=1)
    assert f" {kind}: " in faulty.findings, faulty.output
    assert faulty.counters[f"error {kind}"] > 0
