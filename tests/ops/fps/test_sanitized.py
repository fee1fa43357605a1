"""Parallel sampling of one cloud under AddressSanitizer, UBSan and ThreadSanitizer."""

import subprocess
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

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
