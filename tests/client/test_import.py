"""What `import farpoint` loads, each time in a fresh interpreter."""

import re
import subprocess
import sys
from pathlib import Path

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
    heavy = ("torch", "rich", "plyfile", "laspy", "grpc", "numpy", "google.protobuf")
    assert loaded("import farpoint", *heavy) == []
    assert loaded("import farpoint; farpoint.Client", *heavy[:4]) == []


def test_help_waits_for_neither_grpc_nor_numpy():
    statement = "from tests.support.command import run_farpoint; "
    statement += "assert run_farpoint('sample', '--help').exit_code == 0"
    assert loaded(statement, "grpc", "numpy", "google.protobuf") == []


@pytest.mark.parametrize("statement", ["import farpoint.cli", "import farpoint.io"])
def test_no_part_of_it_needs_torch(statement):
    assert loaded(statement, "torch", "plyfile", "laspy") == []


def test_sampling_a_numpy_cloud_loads_no_torch():
    statement = "import numpy, farpoint._rpcs.sample as s; s.SampleRpc(numpy.eye(3), 1)"
    assert loaded(statement, "torch") == []


def test_type_checkers_see_what_there_is():
    typed = re.findall(r"import (\w+) as \1$", Path(farpoint.__file__).read_text(), re.MULTILINE)
    assert sorted(typed) == farpoint.__all__
    for name in farpoint.__all__:
        assert hasattr(farpoint, name)
    assert farpoint.__version__
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        farpoint.nothing  # noqa: B018
