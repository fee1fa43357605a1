"""Runs the suites on the software CUDA runtime, stage by stage: `make gpu-soft`.

Arguments name stages; without any, all run but `quick`, which `make test` runs. A stage fails if a
test does, or if the runtime found a race, a bad access or something that it does not know.
build/softgpu/logs holds what each wrote.
"""

import os
import re
import subprocess
import sys
import time
from dataclasses import dataclass

from environment import BUILD, PYTHON, ROOT

LOGS = BUILD / "logs"
# The warnings of another torch than the checkout's are no failures.
PYTEST = (
    *("-m", "pytest", "-q", "-p", "no:cacheprovider", "-o", "filterwarnings=default"),
    *("-o", "timeout=300", "--durations=8", "-n", "2"),
)
# Faults that tests plant themselves: counted by those tests.
PLANTED = re.compile(r" (injected|refused): ")


@dataclass(frozen=True)
class Stage:
    name: str
    arguments: tuple[str, ...]
    settings: tuple[tuple[str, str], ...] = ()
    may_find: str = "^$"  # findings that its tests cause on purpose

    def run(self) -> bool:
        log, findings = LOGS / f"{self.name}.log", LOGS / f"{self.name}.findings"
        findings.unlink(missing_ok=True)
        settings = {"SOFTGPU_LOG": str(findings), **dict(self.settings)}
        begun = time.monotonic()
        with log.open("w") as output:
            command = [PYTHON, *self.arguments]
            environ = {**os.environ, **settings}
            status = subprocess.call(command, cwd=ROOT, env=environ, stdout=output, stderr=output)
        found = self._found(findings.read_text() if findings.exists() else "")
        last = log.read_text().strip().splitlines()[-1:] or [""]
        print(f"{self.name}: {last[0].strip('= ')}; {len(found)} findings", flush=True)
        print(*[f"  {line[:200]}" for line in found[:20]], sep="\n")
        print(f"  {time.monotonic() - begun:.0f} s, log in {log.relative_to(ROOT)}", flush=True)
        return status == 0 and not found

    def _found(self, text: str) -> list[str]:
        lines = [line for line in text.splitlines() if line.startswith("softgpu[")]
        return [x for x in lines if not PLANTED.search(x) and not re.search(self.may_find, x)]


SERVER = (("FARPOINT_TEST_DEVICE", "cuda:0"),)
SERVER_TESTS = (
    "@tools/server_tests.txt",
    "-k",
    # Clouds that PTX would be executed for minutes on.
    "not large_clouds and not sensor_faster and not slow_reader "
    "and not recorded_message and not in_pieces and not in_flight "
    # An index out of range inside a program is an assertion of the device, which is lost.
    "and not (wrong_request and points3)",
)
# What is read and thrown away: the padding of rows to four values, boxes past the last one, and at
# distance 0 the farthest point of a node.
UNUSED = r"(read_vectors<|find_\w+_indexed|sample_in_tree<).*reads memory that nothing wrote"
# A device so small that small batches reach every branch of the launchers.
SMALL = (("SOFTGPU_PROCESSORS", "4"),)
# A test or two of each kernel, and of each kind of finding: two minutes at most.
QUICK_TESTS = (
    "small_ops or small_scatters or every_kernel or (few_processors and lattice) "
    "or (planted_fault_is_found and load) or (every_tree and lattice) "
    "or (edges and not 70001 and not 327 and uniform) or calls_cuda or front_end_wrote"
)
QUICK_SOFTGPU = ("tests/softgpu/test_processes.py", "tests/softgpu/test_runtime.py")
MEMORY = "test_memory and not nothing_ or locked_once or two_batches"
OPS = "cuda and not inductor and not test_load"
KERNELS = "not large and not 70001 and not 327"
QUICK = Stage(
    "quick",
    (*PYTEST, "tests/ops/cuda", *QUICK_SOFTGPU, "-k", QUICK_TESTS),
    SMALL,
    may_find=UNUSED,
)
STAGES = (
    Stage("runtime", (*PYTEST, "tests/softgpu")),
    Stage("kernels", (*PYTEST, "tests/ops/cuda", "-k", KERNELS), SMALL, may_find=UNUSED),
    # Inductor needs Triton, which compiles for a device; the loader's tests, an installed wheel.
    Stage("ops", (*PYTEST, "tests/ops", "--ignore", "tests/ops/cuda", "-k", OPS), may_find=UNUSED),
    # Of tests/gpu, what measures no time and needs no large clouds: tests/softgpu/test_staging.py
    # has transfers, and 1000 batches, at the runtime's own counters.
    Stage(
        "memory", (*PYTEST, "tests/gpu/test_memory.py", "tests/gpu/test_staging.py", "-k", MEMORY)
    ),
    Stage("server", (*PYTEST, *SERVER_TESTS), SERVER),
)


def main() -> None:
    wanted = sys.argv[1:] or [stage.name for stage in STAGES]
    LOGS.mkdir(exist_ok=True)
    stages = [stage for stage in (*STAGES, QUICK) if stage.name in wanted]
    failed = [stage.name for stage in stages if not stage.run()]
    sys.exit(f"gpu-soft: failed: {' '.join(failed)}" if failed else 0)


if __name__ == "__main__":
    main()
