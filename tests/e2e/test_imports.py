"""Imports go one way: the client never loads torch, the ops and models never load grpc."""

import subprocess
import sys

import pytest

RULES = [
    ("farpoint", "torch"),
    ("farpoint.cli", "torch"),
    ("farpoint.transforms", "torch"),
    ("farpoint.transforms", "farpoint_ops"),
    ("farpoint_server.ray_serve.application", "torch"),
    ("farpoint_ops", "grpc"),
    ("farpoint_ops", "farpoint_server"),
    ("farpoint_ops.arrays", "grpc"),
    ("farpoint_models", "grpc"),
    ("farpoint_training.scenes", "torch"),
]


@pytest.mark.parametrize(("package", "forbidden"), RULES)
def test_a_package_does_not_load_what_is_above_it(package, forbidden):
    program = f"import sys, {package}; sys.exit({forbidden!r} in sys.modules)"
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert ended.returncode == 0, f"{package} loads {forbidden}\n{ended.stderr}"
