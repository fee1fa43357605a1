"""What `import farpoint` loads, each time in a fresh interpreter."""

import subprocess
import sys

import pytest

import farpoint

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


def test_the_client_is_light():
    heavy = (
        "torch",
        "typer",
        "click",
        "rich",
        "plyfile",
        "laspy",
        "farpoint.cli",
        "grpc_health.v1",
    )
    assert loaded("import farpoint", *heavy, "grpc", "numpy") == ["grpc", "numpy"]


@pytest.mark.parametrize("statement", ["import farpoint.cli", "import farpoint.io"])
def test_no_part_of_it_needs_torch(statement):
    assert loaded(statement, "torch", "plyfile", "laspy") == []


def test_sampling_a_numpy_cloud_loads_no_torch():
    statement = "import numpy, farpoint._rpcs.sample as s; s.SampleRpc(numpy.eye(3), 1)"
    assert loaded(statement, "torch") == []


def test_all_is_sorted_and_complete():
    public = {name for name in vars(farpoint) if not name.startswith("_")} - {"TYPE_CHECKING"}
    submodules = {"errors", "memory", "models", "packed", "results", "v1"}
    submodules |= {"cli", "picture", "ray", "transforms"}
    assert sorted(farpoint.__all__) == farpoint.__all__
    assert public - submodules == set(farpoint.__all__)
