"""The software CUDA runtime answers as the documented one does."""

import subprocess

import pytest
from tests.softgpu.conftest import PYTHON, ROOT

PROFILES = {"H100": (132, 9, 0), "A100": (108, 8, 0), "L4": (58, 8, 9), "Orin": (16, 8, 7)}


@pytest.mark.parametrize("name", PROFILES)
def test_every_profile_has_its_properties_and_runs_the_kernels(run, name):
    processors, major, minor = PROFILES[name]
    program = f"""
    import farpoint_ops
    properties = torch.cuda.get_device_properties(0)
    assert (properties.major, properties.minor) == ({major}, {minor})
    assert properties.multi_processor_count == {processors}
    cloud = torch.rand(2, 700, 3)
    """
    # Machine code and PTX here are for 9.0: an older device has no code to run.
    if major >= 9:
        program += """
    on_device = farpoint_ops.furthest_point_sample(cloud.cuda(), 60).cpu()
    assert torch.equal(on_device, farpoint_ops.furthest_point_sample(cloud, 60))
    """
    else:
        program += """
    try:
        farpoint_ops.furthest_point_sample(cloud.cuda(), 60)
    except RuntimeError as error:
        assert "no kernel image" in str(error), error
    else:
        raise AssertionError
    """
    ended = run(program, PROFILE=name)
    assert (ended.status, ended.findings) == (0, ""), ended.output


def test_memory_ends_at_the_capacity_and_comes_back(run):
    ended = run(
        """
        total = torch.cuda.get_device_properties(0).total_memory
        assert total == 1 << 30
        half = torch.empty(total // 2, dtype=torch.uint8, device="cuda")
        try:
            torch.empty(total // 2, dtype=torch.uint8, device="cuda")
        except torch.OutOfMemoryError:
            pass
        else:
            raise AssertionError
        assert count("cudaMalloc out of memory") == 2  # torch frees its cache and tries again
        before = torch.cuda.mem_get_info()[0]
        del half
        torch.cuda.empty_cache()
        assert torch.cuda.mem_get_info()[0] == before + total // 2
        """,
        MB=1024,
    )
    assert (ended.status, ended.findings) == (0, ""), ended.output


def test_streams_run_side_by_side_and_events_order_them(run):
    ended = run(
        """
        import time
        side, device = torch.cuda.Stream(), torch.zeros(1000, device="cuda")
        torch.cuda.synchronize()
        begun, done = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        begun.record()
        end = hold()
        done.record()
        with torch.cuda.stream(side):
            device += 1
        side.synchronize()
        assert not done.query()
        side.wait_event(done)
        with torch.cuda.stream(side):
            device += 1
        assert not side.query()
        time.sleep(0.1)
        end.set()
        side.synchronize()
        assert done.query() and begun.elapsed_time(done) >= 100
        assert device.sum().item() == 2000
        """
    )
    assert (ended.status, ended.findings) == (0, ""), ended.output


def test_two_devices_have_memory_and_streams_of_their_own(run):
    ended = run(
        """
        assert torch.cuda.device_count() == 2
        one = torch.ones(1000, device="cuda:1")
        assert torch.cuda.memory_allocated(0) == 0 < torch.cuda.memory_allocated(1)
        assert one.to("cuda:0").sum().item() == 1000
        """,
        DEVICES=2,
    )
    assert (ended.status, ended.findings) == (0, ""), ended.output


def test_a_graph_repeats_what_was_captured_on_new_values(run):
    ended = run(
        """
        import farpoint_ops
        cloud, side = torch.rand(1, 500, 3, device="cuda"), torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            farpoint_ops.furthest_point_sample(cloud, 9)
        torch.cuda.synchronize()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            rows = farpoint_ops.furthest_point_sample(cloud, 9)
        for _ in range(3):
            new = torch.rand(1, 500, 3)
            cloud.copy_(new)
            graph.replay()
            assert torch.equal(rows.cpu(), farpoint_ops.furthest_point_sample(new, 9))
        """
    )
    assert (ended.status, ended.findings) == (0, ""), ended.output


@pytest.mark.parametrize(
    ("library", "call"), [("libcublas.so.13", "cublasCreate_v2"), ("libcufft.so.12", "cufftCreate")]
)
def test_what_is_not_there_refuses_by_its_name(run, library, call):
    ended = run(f'assert ctypes.CDLL("{library}").{call}(0) != 0')
    assert ended.status == 0, ended.output
    assert f"unsupported: {call}" in ended.findings


@pytest.mark.parametrize(
    ("faulty", "text"),
    [
        ("shape=(1, 1001, 3)", "out of bounds of torch's blocks"),
        ("freed=True", "use after free, torch's block was freed"),
    ],
)
def test_a_kernel_outside_its_memory_loses_the_device(run, faulty, text):
    program = """
    import farpoint_ops
    def sample(shape=(1, 1000, 3), freed=False):
        points = torch.rand(1, 1000, 3, device="cuda")
        class Alias:
            __cuda_array_interface__ = dict(
                shape=shape, typestr="<f4", data=(points.data_ptr(), False), version=3)
        alias = torch.as_tensor(Alias(), device="cuda")
        del Alias
        if freed:
            del points
        return farpoint_ops.furthest_point_sample(alias, 5).cpu()
    sample()
    try:
        sample(FAULTY)
    except RuntimeError as error:
        print(error)
    """
    ended = run(program.replace("FAULTY", faulty))
    assert text in ended.findings
    assert "device lost: cudaErrorIllegalAddress" in ended.findings
    assert "an illegal memory access was encountered" in ended.output


def test_a_host_that_reads_device_memory_faults(run):
    ended = run(
        """
        device = torch.zeros(1000, device="cuda")
        ctypes.c_float.from_address(device.data_ptr()).value
        """
    )
    assert ended.status == -11
    assert "the host reads or writes memory of a device" in ended.findings


def test_expandable_segments_grow_and_give_their_pages_back(run, monkeypatch):
    monkeypatch.setenv("PYTORCH_ALLOC_CONF", "expandable_segments:True")
    ended = run(
        """
        blocks = [torch.ones(30 << 20, dtype=torch.uint8, device="cuda") for _ in range(5)]
        assert sum(int(block[::4096].sum().item()) for block in blocks) == 5 * (30 << 20) // 4096
        held = torch.cuda.mem_get_info()[0]
        del blocks
        torch.cuda.empty_cache()
        assert torch.cuda.mem_get_info()[0] >= held + 5 * (30 << 20)
        assert count("cuMemUnmap") > 0 == count("cudaMalloc")
        """
    )
    assert (ended.status, ended.findings) == (0, ""), ended.output


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
        from benchmarks.cuda import __main__ as bench, gather_scatter, timing
        bench.RESULTS = pathlib.Path({str(tmp_path)!r})
        bench.SIZES, bench.BATCHED, bench.BATCHES = [(600, 20)], [(300, 20)], [2]
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
    for section in ("gathers", "scatters", "batches", "methods"):
        assert f"{section}: {tmp_path}" in ended.output


def test_a_forked_child_is_refused_as_cuda_refuses_it(run):
    ended = run(
        """
        import os
        torch.zeros(1, device="cuda")
        child = os.fork()
        if child == 0:
            os._exit(runtime.cudaDeviceSynchronize())
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 3  # initialization error
        """
    )
    assert (ended.status, ended.findings) == (0, ""), ended.output
