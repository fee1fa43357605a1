"""Modules that `import farpoint` loads, and types that checkers see."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

import farpoint

CLIENT = Path(__file__).resolve().parents[3] / "client" / "src"

SNIPPET = """
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from typing_extensions import assert_type

import farpoint
from farpoint import Client, AsyncClient, Encoding, PackedCloud, Sample
from farpoint.io import Cloud


class Tensor:
    def __array__(self) -> NDArray[Any]:
        raise NotImplementedError


class Data:
    pos: Tensor | None


class PointCloud2:
    fields: list[Any]
    height: int
    width: int
    is_bigendian: bool
    point_step: int
    row_step: int
    data: bytes


def sync(
    client: Client, points: NDArray[np.float32], tensor: Tensor, cloud: Cloud, data: Data,
    message: PointCloud2, packed: PackedCloud,
) -> None:
    batch = np.zeros((2, 100, 3))
    assert_type(client.sample(points, 4, attributes={"a": points}, start=1), Sample)
    assert_type(client.sample(np.zeros((100, 3)), 4), Sample)
    assert_type(client.sample(tensor, 4), Sample)
    assert_type(client.sample(cloud, 4), Sample)
    assert_type(client.sample(data, 4), Sample)
    assert_type(client.sample(message, 4), Sample)
    assert_type(client.sample(packed, 4), Sample)
    assert_type(client.sample([[0.0, 1.0, 2.0], [3.0, 4.0, 5.0]], 1), Sample)
    assert_type(client.sample(batch, 4), list[Sample])
    assert_type(client.sample([points, points], [3, 4]), list[Sample])
    assert_type(client.sample([message, message], 4), list[Sample])
    assert_type(client.encode(tensor, model="encoder"), Encoding)
    assert_type(client.encode(batch), list[Encoding])
    assert_type(client.encode([points]), list[Encoding])
    assert_type(farpoint.sample(message, 4), Sample)
    assert_type(farpoint.sample([points], 4), list[Sample])
    assert_type(PackedCloud.from_ros(message), PackedCloud)
    client.sample_stream(iter([message]), 4)


async def awaited(client: AsyncClient, points: NDArray[np.float32], cloud: Cloud) -> None:
    batch = np.zeros((2, 100, 3))
    assert_type(await client.sample(cloud, 4), Sample)
    assert_type(await client.sample(batch, 4), list[Sample])
    assert_type(await client.sample([points], 4), list[Sample])
    assert_type(await client.encode(points), Encoding)
    assert_type(await client.encode([points]), list[Encoding])
"""

WRONG = """
import farpoint

def call(client: farpoint.Client) -> None:
    client.sample("scan.ply", 4)
    client.sample({"x": 1}, 4)
    client.encode(7)
    client.sample([[0.0, 1.0, 2.0]], 1, radus=1.0)
"""

# What the client imports that has no types.
CONFIGURATION = """
[mypy]
strict = true
[mypy-google.rpc.*,laspy.*]
ignore_missing_imports = true
"""


@pytest.fixture
def check(tmp_path, monkeypatch):
    """Exit status and output of `mypy --strict` over a module."""
    pytest.importorskip("mypy", reason="optional extra: mypy is not installed")
    monkeypatch.setenv("MYPYPATH", str(CLIENT))
    monkeypatch.delenv("PYTHONPATH", raising=False)

    def run(source: str) -> tuple[int, str]:
        (tmp_path / "snippet.py").write_text(source)
        (tmp_path / "mypy.ini").write_text(CONFIGURATION)
        command = [sys.executable, "-m", "mypy", "snippet.py"]
        done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path)
        return done.returncode, done.stdout

    return run


@pytest.mark.slow
def test_every_form_of_input_has_its_result(check):
    assert check(SNIPPET)[0] == 0, check(SNIPPET)[1]


@pytest.mark.slow
def test_wrong_points_and_keywords_are_refused(check):
    status, output = check(WRONG)
    assert status == 1
    assert "Found 5 errors" in output


REPORT = """
import sys
{statement}
print(*(name for name in {names!r} if name in sys.modules))
"""


def loaded(statement: str, *names: str) -> list[str]:
    code = REPORT.format(statement=statement, names=names)
    return subprocess.run(
        [sys.executable, "-c", code], check=True, capture_output=True, text=True
    ).stdout.split()


HELP = "from tests.support.command import run_farpoint; run_farpoint('sample', '--help')"
SAMPLE = "import numpy, farpoint._rpcs.sample as s; s.SampleRpc([numpy.eye(3).tolist()], 1)"
HEAVY = ("torch", "laspy", "tqdm")
LIGHT = {
    "import farpoint": (*HEAVY, "grpc", "numpy", "google.protobuf"),
    "import farpoint; farpoint.Client": HEAVY,
    "import farpoint.io, farpoint.cli": (*HEAVY, "farpoint_ops"),
    "import farpoint_training.scenes": ("torch",),
    HELP: ("grpc", "numpy", "google.protobuf"),
    SAMPLE: (*HEAVY, "pandas", "trimesh", "open3d"),
    "import farpoint_server.app.server, farpoint_server.app.engine": ("sympy",),
    "import farpoint_server.processes.supervisor": ("torch",),
}


@pytest.mark.parametrize(
    "statement",
    [pytest.param(s, marks=[pytest.mark.slow] * ("app.server" in s)) for s in LIGHT],
)
def test_libraries_are_loaded_with_their_first_use(statement):
    assert loaded(statement, *LIGHT[statement]) == []


def test_type_checkers_see_every_name():
    typed = re.findall(r"import (\w+) as \1$", Path(farpoint.__file__).read_text(), re.MULTILINE)
    assert sorted(typed) == farpoint.__all__
    for name in farpoint.__all__:
        assert hasattr(farpoint, name)


def test_public_modules_are_there_after_import_farpoint_alone():
    names = ["errors", "io", "memory", "models", "packed", "results", "testing"]
    used = "; ".join(f"farpoint.{name}" for name in names)
    modules = [f"farpoint.{name}" for name in names]
    assert loaded(f"import farpoint; {used}", *modules) == modules
