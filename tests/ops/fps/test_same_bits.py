"""Sampling on the CPU: the same bits everywhere, stopped by a flag, and under sanitizers."""

import subprocess
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import torch
from tests.support import reference
from tests.support.clouds import street_scan
from tests.support.tensors import assert_same
from torch import Tensor

import farpoint_ops  # noqa: F401  registers the ops
from farpoint_ops import farthest_point_sample

THREADS = (2, 3, 7)
cpu_simd = torch.ops.farpoint._cpu_simd
pytestmark = pytest.mark.usefixtures("restored_threads")


def sampled(cloud: Tensor, m: int, threads: int, **options: object) -> tuple[Tensor, ...]:
    torch.set_num_threads(threads)
    return farthest_point_sample(cloud, m, start=7, return_distances=True, **options)


def test_equals_the_reference(large: Tensor) -> None:
    m = min(150, 3_000_000 // large.size(1))
    assert_same(
        sampled(large, m, 1), reference.furthest_point_sample(large, m, start=torch.tensor([7]))
    )


@pytest.mark.usefixtures("narrower")
def test_every_instruction_set(large: Tensor) -> None:
    limited = sampled(large, 1500, 1)
    cpu_simd("")
    assert_same(limited, sampled(large, 1500, 1))


@pytest.mark.parametrize("m", [600, 14_000])
def test_any_number_of_threads(large: Tensor, m: int) -> None:
    m = min(m, large.size(1))
    expected = sampled(large, m, 1)
    for threads in THREADS:
        assert_same(sampled(large, m, threads), expected)
        assert torch.equal(farthest_point_sample(large, m, start=7), expected[0])


@pytest.mark.usefixtures("narrower")
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_other_spaces(dtype: torch.dtype) -> None:
    generator = torch.Generator().manual_seed(3)
    cloud = torch.randn(1, 18_001, 24, generator=generator, dtype=torch.float64).to(dtype)
    cloud[:, 9000:] = cloud[:, 9000:].round()
    found = [sampled(cloud, 20, threads) for threads in (1, 2, 4)]
    cpu_simd("")
    expected = sampled(cloud, 20, 1)
    for each in found:
        assert_same(each, expected)


@pytest.mark.usefixtures("level")
@pytest.mark.parametrize("threads", [1, *THREADS])
def test_a_radius_ends_it_at_the_same_sample(threads: int) -> None:
    cloud = torch.from_numpy(street_scan()[None, :, :3].copy())
    m = cloud.size(1) // 2
    found = sampled(cloud, m, threads)
    for place in (10, 500, m - 2):
        radius = float(found[1][0, place])
        count = int((found[1][0] <= radius).int().argmax()) + 1
        ended = sampled(cloud, m, threads, radius=radius)
        assert ended[2].tolist() == [0, count]
        assert_same(ended[:2], (found[0][0, :count], found[1][0, :count]))


@pytest.mark.usefixtures("level")
@pytest.mark.parametrize("n", [1, 2, 15, 16, 17, 31, 33, 511, 513, 1025])
def test_sizes_around_the_width_of_a_leaf(n: int) -> None:
    cloud = torch.rand(1, n, 3, generator=torch.Generator().manual_seed(n))
    m = min(n, 100)
    actual = farthest_point_sample(cloud, m, return_distances=True)
    assert_same(actual, reference.furthest_point_sample(cloud, m))


def test_an_unknown_level_is_named() -> None:
    with pytest.raises(ValueError, match="expected plain, avx2 or avx512, got sse9"):
        cpu_simd("sse9")


ops = torch.ops.farpoint
SIZES, COUNTS = [3000, 400_000, 20, 700], [50, 400_000, 20, 3]
# Of a sampling that would take a minute and stops within 0.1 s on an idle machine.
SECONDS_TO_END = 5


def offsets(*values: int) -> Tensor:
    return torch.tensor([0, *values]).cumsum(0)


def cloud(n: int, d: int = 3, dtype: torch.dtype = torch.float32) -> Tensor:
    return torch.rand(n, d, generator=torch.Generator().manual_seed(2), dtype=dtype)


def sample(xyz: Tensor, flags: Tensor) -> tuple[Tensor, Tensor]:
    """Indices and distances of clouds of SIZES."""
    return ops._furthest_point_sample_cancellable(
        xyz, offsets(*SIZES), offsets(*COUNTS), None, sum(COUNTS), flags, True
    )


def flags_of(clouds: int) -> Tensor:
    return torch.zeros(clouds, dtype=torch.int32)


@pytest.mark.parametrize("budget_ns", [0, 60_000_000_000])
def test_clouds_that_are_not_given_up_are_the_same_as_without_flags(budget_ns: int) -> None:
    arguments = cloud(6000), offsets(3000, 3000), offsets(40, 7), torch.tensor([2, 9]), 47
    expected = ops.furthest_point_sample_ragged(*arguments, 3000, 40, True)
    given = *arguments, flags_of(2), True, None, budget_ns
    assert_same(ops._furthest_point_sample_cancellable(*given), expected)


def test_clouds_of_a_radius_each_with_flags() -> None:
    xyz, bounds, radii = cloud(80), offsets(30, 50), torch.tensor([0.3, 0.0])
    rows, distances = ops._furthest_point_sample_cancellable(
        xyz, bounds, bounds, None, 80, flags_of(2), True, radii
    )
    expected = reference.furthest_point_sample_ragged(xyz, [0, 30, 80], [30, 50], [0, 0], [0.3, 0])
    assert torch.equal(rows[rows >= 0], expected[0])
    assert torch.equal(distances[rows >= 0], expected[1])
    assert (distances[rows < 0] == 0).all()


def test_a_cloud_that_is_cancelled_costs_the_others_nothing() -> None:
    xyz, flags = cloud(sum(SIZES)), flags_of(4)
    timer = threading.Timer(0.1, lambda: flags.__setitem__(1, 1))
    timer.start()
    begin = time.perf_counter()
    indices, distances = sample(xyz, flags)
    seconds = time.perf_counter() - begin
    timer.join()
    begin = time.perf_counter()
    expected = sample(xyz, flags_of(4))
    assert seconds < 0.1 + (time.perf_counter() - begin) / 2
    slots = offsets(*COUNTS)
    for b in (0, 2, 3):
        part = slice(slots[b], slots[b + 1])
        assert torch.equal(indices[part], expected[0][part])
        assert torch.equal(distances[part], expected[1][part])


@pytest.mark.parametrize("dimensions", [3, 16])
@pytest.mark.parametrize("threads", [1, 4])
def test_every_thread_sees_that_its_cloud_is_cancelled(dimensions: int, threads: int) -> None:
    xyz, flags = cloud(2_000_000, dimensions), flags_of(1)
    bounds, before = offsets(len(xyz)), torch.get_num_threads()
    timer = threading.Timer(0.1, lambda: flags.fill_(1))
    timer.start()
    torch.set_num_threads(threads)
    try:
        ops._furthest_point_sample_cancellable(xyz, bounds, bounds, None, len(xyz), flags)
    finally:
        torch.set_num_threads(before)
        ended = time.perf_counter()
    assert flags.item(), "the cloud was done before it could be cancelled"
    assert time.perf_counter() - ended < SECONDS_TO_END
    timer.join()


@pytest.mark.parametrize("dimensions", [3, 16])
@pytest.mark.parametrize("threads", [1, 4])
def test_a_call_that_outlasts_its_budget_has_empty_outputs(dimensions: int, threads: int) -> None:
    xyz, bounds = cloud(2_000_000, dimensions), offsets(20, 1_999_980)
    arguments = xyz, bounds, bounds, None, len(xyz), flags_of(2), True, None
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    begin = time.perf_counter()
    try:
        outputs = ops._furthest_point_sample_cancellable(*arguments, 100_000_000)
    finally:
        torch.set_num_threads(before)
    assert 0.1 < time.perf_counter() - begin < SECONDS_TO_END
    assert [output.shape for output in outputs] == [(0,), (0,)]


ROOT = Path(__file__).parents[3]
KERNELS = ROOT / "csrc/cpu/kernels"
SOURCES = [
    Path(__file__).parent / "sanitized/fps_parts.cpp",
    *sorted(KERNELS.glob("fps/*.cpp")),
    *sorted(KERNELS.glob("levels/*.cpp")),
    *sorted(KERNELS.glob("spatial/*.cpp")),
]
FLAGS = ["-std=c++20", "-O1", "-g", "-ffp-contract=off", f"-I{ROOT / 'csrc'}"]
CLOUDS = "64"


def run(*command: object) -> None:
    done = subprocess.run([*map(str, command)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.fixture(params=["address,undefined", "thread"])
def sanitizer(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """A flag of the compiler; the test is skipped where even an empty program does not run with it.

    Not every compiler has the libraries, nor does every system lay memory out as they expect.
    """
    flag = f"-fsanitize={request.param}"
    empty = tmp_path / "empty.cpp"
    empty.write_text("int main() {}")
    try:
        run("g++", flag, empty, "-o", tmp_path / "empty")
        run(tmp_path / "empty")
    except AssertionError as error:
        pytest.skip(f"g++ {flag}: {error}")
    return flag


@pytest.mark.slow
@pytest.mark.timeout(600)  # compiles
def test_parts_of_a_cloud_touch_nothing_that_is_not_theirs(sanitizer: str, tmp_path: Path) -> None:
    compiler = ["g++", *FLAGS, sanitizer, "-fno-sanitize-recover=all"]
    objects = [tmp_path / f"{source.parent.name}_{source.stem}.o" for source in SOURCES]
    with ThreadPoolExecutor(2) as pool:
        list(pool.map(lambda s, o: run(*compiler, "-c", s, "-o", o), SOURCES, objects))
    program = tmp_path / "fps_parts"
    run(*compiler, *objects, "-o", program, "-pthread")
    run(program, CLOUDS)
