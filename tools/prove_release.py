"""Runs the demo from the wheels in dist/ in a clean environment, without the checkout.

The first argument is the torch to install, one that the wheel of the ops has a binding for; by
default the newest that `make wheels` tests.
"""

import os
import shutil
import subprocess
import sys
from pathlib import Path

from wheels import DIST, FOLDER, PAIRS, ROOT, make_environment, make_tools, run

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


def find_wheels() -> list[Path]:
    """The one wheel of each distribution."""
    found = [list(DIST.glob(f"{name}-*.whl")) for name in DISTRIBUTIONS]
    if [len(wheels) for wheels in found] != [1] * len(DISTRIBUTIONS):
        sys.exit("release: expected one wheel of each distribution in dist/: run `make wheels`")
    return [wheel for (wheel,) in found]


def main() -> None:
    torch = sys.argv[1] if len(sys.argv) > 1 else PAIRS[-1][1]
    client, ops, server = find_wheels()
    folder = FOLDER / "release"
    shutil.rmtree(folder, ignore_errors=True)
    packages = (f"farpoint[las,picture] @ {client.as_uri()}", str(ops), str(server))
    tools = make_tools()
    python = make_environment(tools, sys.executable, folder, f"torch=={torch}", *packages)
    for path in (DEMO, CLOUD):
        shutil.copy(path, folder)
    environment = {k: v for k, v in os.environ.items() if not k.startswith("FARPOINT_")}
    environment["PYTHONPATH"] = ""
    for command in (["-c", WHERE], ["demo.py", CLOUD.name]):
        subprocess.run([str(python), *command], check=True, cwd=folder, env=environment)
    run(tools.with_name("uv"), "pip", "check", "-q", "--python", python)


if __name__ == "__main__":
    main()
