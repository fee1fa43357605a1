"""Installs the wheels in dist/ with pip in clean environments, and runs the demo from them.

There is one environment for each pair of a Python and a torch that `make wheels` tests, or for
those of the torches that arguments name, and one of the client alone, without torch.
"""

import os
import shutil
import statistics
import subprocess
import sys
from pathlib import Path

from wheels import DIST, FOLDER, PAIRS, ROOT, find_python, make_environment, make_tools, run

DISTRIBUTIONS = ("farpoint", "farpoint_ops", "farpoint_server")
CLOUD = ROOT / "tests" / "data" / "autzen_trim_part.laz"
DEMO = ROOT / "examples" / "demo.py"
WHERE = """
import sys
from importlib.metadata import version
import farpoint, farpoint_models, farpoint_ops, farpoint_server
modules = (farpoint, farpoint_models, farpoint_ops, farpoint_server)
outside = [m.__file__ for m in modules if not m.__file__.startswith(sys.prefix)]
versions = {version(name) for name in ("farpoint", "farpoint-ops", "farpoint-server")}
assert not outside, outside
assert versions == {farpoint.__version__}, versions
print(f"release: {farpoint.__version__} in {sys.prefix}")
"""
IMPORT = """
import importlib.util, time
assert importlib.util.find_spec("torch") is None
begun = time.perf_counter()
import farpoint
print(time.perf_counter() - begun)
"""


def find_wheels() -> list[Path]:
    """The one wheel of each distribution."""
    found = [list(DIST.glob(f"{name}-*.whl")) for name in DISTRIBUTIONS]
    if [len(wheels) for wheels in found] != [1] * len(DISTRIBUTIONS):
        sys.exit("release: expected one wheel of each distribution in dist/: run `make wheels`")
    return [wheel for (wheel,) in found]


def without_settings() -> dict[str, str]:
    """The environment without the server's settings and the checkout's packages."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("FARPOINT_")}
    return {**kept, "PYTHONPATH": ""}


def prove_client(tools: Path, wheel: Path) -> None:
    """Installs the client where nothing is installed, and measures its import."""
    folder = FOLDER / "client"
    shutil.rmtree(folder, ignore_errors=True)
    python = make_environment(tools, sys.executable, folder, "pip")
    run(python, "-m", "pip", "install", "-q", wheel)
    seconds = [
        float(subprocess.check_output([python, "-c", IMPORT], cwd=folder, env=without_settings()))
        for _ in range(9)
    ]
    print(f"release: import farpoint, without torch: {statistics.median(seconds) * 1e3:.0f} ms")


def prove_demo(python: Path, wheels: list[Path]) -> None:
    """Installs the wheels with pip next to a torch, and runs the demo."""
    client, *others = wheels
    folder = python.parents[1]
    packages = (f"farpoint[las] @ {client.as_uri()}", "matplotlib", *others)
    run(python, "-m", "pip", "install", "-q", *packages)
    run(python, "-m", "pip", "check", log=folder / "check.log")
    for path in (DEMO, CLOUD):
        shutil.copy(path, folder)
    for command in (["-c", WHERE], ["demo.py", CLOUD.name]):
        subprocess.run([python, *command], check=True, cwd=folder, env=without_settings())


def main() -> None:
    wheels = find_wheels()
    tools = make_tools()
    prove_client(tools, wheels[0])
    for version, torch in PAIRS:
        if sys.argv[1:] and torch not in sys.argv[1:]:
            continue
        folder = FOLDER / f"release{version}-torch{torch}"
        shutil.rmtree(folder, ignore_errors=True)
        python = make_environment(tools, find_python(version), folder, f"torch=={torch}")
        if python is not None:  # else `make wheels` has said that this Python is not here
            prove_demo(python, wheels)


if __name__ == "__main__":
    main()
