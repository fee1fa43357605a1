"""A virtual environment for each compared server, so that none decides another's versions."""

import json
import re
import subprocess
import sys
from collections.abc import Iterable
from functools import cache
from pathlib import Path

from benchmarks.common.report import ROOT

FOLDER = ROOT / "build" / "peers"
SAMPLER = (
    "fpsample==1.0.2",
    "numpy==2.4.6; python_version >= '3.11'",
    "numpy==2.2.6; python_version < '3.11'",
)
# Packages of each environment; pip adds what these need.
REQUIREMENTS = {
    "grpcio": ("grpcio==1.85.1", *SAMPLER),
    # With uvloop from 0.22 on, MLServer's worker processes end as they begin.
    "mlserver": ("mlserver==1.7.1", "grpcio==1.85.1", "uvloop==0.21.0", *SAMPLER),
    "ray": ("ray[serve-grpc]==2.60.0", "grpcio==1.85.1", *SAMPLER),
    "litserve": ("litserve==0.2.19", "uvicorn==0.54.0", "fastapi==0.165.0", *SAMPLER),
    "pytriton": ("nvidia-pytriton==0.7.0",),
}
# Triton's Python process links the system's libpython: another standard library does not fit it.
INTERPRETERS = {"pytriton": "/usr/bin/python3"}
INSTALL_SECONDS = 900
VERSIONS = """
import json, sys
from importlib.metadata import version
print(json.dumps({name: version(name) for name in sys.argv[1:]}))
"""


class PeerError(Exception):
    """Why a peer is left out."""


def output_of(*command: str) -> str:
    """The output of a command.

    Raises:
        PeerError: it fails, or takes too long.
    """
    try:
        done = subprocess.run(command, capture_output=True, timeout=INSTALL_SECONDS)
    except subprocess.TimeoutExpired as error:
        raise PeerError(f"not done in {INSTALL_SECONDS} s") from error
    if done.returncode:
        lines = [line for line in done.stderr.decode().splitlines() if line.strip()]
        raise PeerError(lines[-1] if lines else f"{command[0]} ended with {done.returncode}")
    return done.stdout.decode()


@cache
def _failure(name: str) -> PeerError | None:
    """Installs what the environment lacks, or returns why it cannot; one attempt a run."""
    home = FOLDER / name
    python, mark = home / "bin" / "python", home / "requirements.txt"
    wanted = "\n".join(REQUIREMENTS[name]) + "\n"
    if mark.is_file() and mark.read_text() == wanted:
        return None
    print(f"installing {name} in {home}", flush=True)
    mark.unlink(missing_ok=True)
    try:
        interpreter = INTERPRETERS.get(name, sys.executable)
        output_of(interpreter, "-m", "venv", "--without-pip", str(home))
        install = (sys.executable, "-m", "pip", "--python", str(python), "install", "-q")
        output_of(*install, *REQUIREMENTS[name])
    except PeerError as error:
        return error
    mark.write_text(wanted)
    return None


def python_of(name: str) -> Path:
    """The environment's interpreter; installs what it lacks.

    Raises:
        PeerError: it cannot be installed here.
    """
    if error := _failure(name):
        raise error
    return FOLDER / name / "bin" / "python"


def _versions(name: str) -> dict[str, str]:
    packages = {re.split(r"[\[=;]", requirement)[0] for requirement in REQUIREMENTS[name]}
    return json.loads(output_of(str(python_of(name)), "-c", VERSIONS, *sorted(packages)))


def peer_versions(names: Iterable[str]) -> dict[str, dict[str, str]]:
    """By environment, what is installed of the packages that the table names."""
    return {name: _versions(name) for name in names if _failure(name) is None}
