"""Programs on the software CUDA runtime: tests skip where `make gpu-soft` has not built it."""

import json
import os
import subprocess
import textwrap
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PYTHON = ROOT / "build" / "softgpu" / "venv" / "bin" / "python"
HELPERS = """
import ctypes, threading, torch
runtime = ctypes.CDLL("libcudart.so.13")
runtime.softgpu_count.restype = ctypes.c_long
def count(name): return runtime.softgpu_count(name.encode())

holds = []  # callbacks must live until they have run
def hold():
    "Keeps the current stream until the event that it returns is set."
    end = threading.Event()
    holds.append(ctypes.CFUNCTYPE(None, ctypes.c_void_p)(lambda _: end.wait() and None))
    stream = ctypes.c_void_p(torch.cuda.current_stream().cuda_stream)
    assert runtime.cudaLaunchHostFunc(stream, holds[-1], None) == 0
    return end
"""


@dataclass(frozen=True)
class Ended:
    """A program that ran to its end."""

    status: int
    output: str
    findings: str
    counters: dict[str, int]


@pytest.fixture(autouse=True, scope="session")
def environment() -> None:
    if not PYTHON.exists():
        pytest.skip("needs the software CUDA runtime: run `make gpu-soft`")


@pytest.fixture
def run(tmp_path: Path) -> Callable[..., Ended]:
    """Runs a Python program in the runtime's environment, with settings such as SEED=1."""

    def run(program: str, timeout_s: float = 100, **settings: object) -> Ended:
        log, report = tmp_path / "findings", tmp_path / "report.json"
        log.write_text("")
        given = {f"SOFTGPU_{name}": str(value) for name, value in settings.items()}
        files = {"SOFTGPU_LOG": str(log), "SOFTGPU_REPORT": str(report)}
        ended = subprocess.run(
            [PYTHON, "-c", HELPERS + textwrap.dedent(program)],
            cwd=ROOT,
            env={**os.environ, "PYTHONPATH": str(ROOT), **files, **given},
            capture_output=True,
            text=True,
            timeout=timeout_s,
        )
        counters = json.loads(report.read_text()) if report.exists() else {}
        return Ended(ended.returncode, ended.stdout + ended.stderr, log.read_text(), counters)

    return run
