"""The client, and the server, with the major versions of protobuf that are not installed here.

With the one that is, the rest of the suite runs. They accept 6 and 7.
"""

import os
import subprocess
import sys
from pathlib import Path

import google.protobuf
import pytest

ROOT = Path(__file__).parents[2]
# The contract on the wire: of the client, of raw stubs, and of Open Inference.
TESTS = (
    "test_sample.py",
    "test_encode.py::test_each_stage_is_a_prefix_of_the_farthest_points_and_counts_every_point",
    "test_encode.py::test_over_open_inference_the_stages_are_those_of_encode",
    "test_stream.py::test_a_stream_is_answered_in_order_and_goes_on_after_a_failure",
)
OTHERS = [major for major in (6, 7) if not google.protobuf.__version__.startswith(f"{major}.")]
SAYS_VERSION = "import google.protobuf as p; print(p.__version__)"


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("major", OTHERS)
def test_the_contract_holds_with_protobuf(major: int) -> None:
    environment = {**os.environ, "PYTHONPATH": path_with_protobuf(major)}
    version = run(environment, "-c", SAYS_VERSION)
    assert version.stdout.startswith(f"{major}."), version.stdout + version.stderr
    tests = [f"tests/e2e/{name}" for name in TESTS]
    contract = run(environment, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", *tests)
    assert contract.returncode == 0, contract.stdout[-4000:] + contract.stderr[-2000:]
    assert " passed" in contract.stdout


def path_with_protobuf(major: int) -> str:
    """PYTHONPATH of a child in which protobuf has that major version; skips where there is none."""
    folder = ROOT / "build" / f"protobuf-{major}"
    if not folder.is_dir():
        made = f"{folder}.{os.getpid()}"
        pip = ["-m", "pip", "install", "-q", "--no-deps", "--retries", "0", "--timeout", "20"]
        done = run(dict(os.environ), *pip, "--target", made, f"protobuf~={major}.0")
        if done.returncode:
            pytest.skip(f"protobuf {major} cannot be installed here: {done.stderr.strip()[-300:]}")
        os.rename(made, folder)
    return os.pathsep.join(filter(None, [str(folder), os.environ.get("PYTHONPATH", "")]))


def run(environment: dict[str, str], *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, *arguments]
    return subprocess.run(
        command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False
    )
