"""Trial load and run of a program in a separate process, which may fail without harm.

`python -m farpoint_server.models.trial PATH SECONDS RUNS` prints the reason if the program at PATH
cannot be served.
"""

import asyncio
import os
import resource
import signal
import sys
from pathlib import Path

import numpy as np
import torch

from farpoint_models.programs import Manifest, ProgramError, load_program
from farpoint_models.programs.tensors import ALL_ROWS, CLOUDS, ROWS, first_line
from farpoint_models.programs.trials import clouds_of
from farpoint_server.kinds.batching import ModelInput

TIMEOUT_S = 120
# Beyond the interpreter with torch: copies of the archive, and memory for the first run.
ARCHIVE_COPIES, RUN_BYTES = 4, 4 << 30
# Enough that rows, not the call itself, dominate time and memory.
PROGRAM_POINTS = 1024
CPU = torch.device("cpu")


async def try_program(path: Path, *, runs: bool, timeout_s: int = TIMEOUT_S) -> None:
    """Loads a program in another process, with bounds of memory and time.

    If `runs`, the program also runs there, on the CPU.

    Raises:
        ProgramError: it cannot be loaded or run there.
    """
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "farpoint_server.models.trial", path, str(timeout_s), str(runs)),
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
    )
    try:
        output, _ = await process.communicate()
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    if output:
        raise ProgramError(output.decode(errors="replace"))
    if process.returncode == -signal.SIGALRM:
        raise ProgramError(f"expected it to load and run within {timeout_s} s")
    if process.returncode:
        raise ProgramError(f"the process that tried it ended with status {process.returncode}")


def main(path: Path, timeout_s: int, *, runs: bool) -> None:
    """Loads and runs a program; prints the reason if that fails."""
    # Holds even if the server ends.
    signal.alarm(timeout_s)
    torch.set_num_threads(1)
    size = RUN_BYTES
    try:
        size += ARCHIVE_COPIES * os.stat(path).st_size
        resource.setrlimit(resource.RLIMIT_DATA, (_data_bytes() + size,) * 2)
        program = load_program(path)
        if runs:
            program.check(CPU)
            program.peaks(CPU)
    except MemoryError:
        print(f"expected it to load and run within {size >> 20} MiB", end="")
    except Exception as error:
        print(first_line(error), end="")


def sample_request(manifest: Manifest) -> ModelInput:
    """A request that the manifest allows, of the author's values where there are examples."""
    length = manifest.within(ROWS, manifest.within(ALL_ROWS, PROGRAM_POINTS))
    clouds = clouds_of(manifest, [length] * manifest.within(CLOUDS, 1))
    rows = {name: np.concatenate([c.rows[name] for c in clouds]) for name in clouds[0].rows}
    values = {name: np.stack([c.values[name] for c in clouds]) for name in clouds[0].values}
    return ModelInput(np.full(len(clouds), length), rows, values)


def _data_bytes() -> int:
    """Bytes that RLIMIT_DATA counts now."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(1024 * int(line.split()[1]) for line in lines if line.startswith("VmData:"))


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), runs=sys.argv[3] == "True")
