"""The models run without the service: nothing in them loads gRPC or the client."""

import subprocess
import sys

import farpoint_models

CODE = """
import importlib, pkgutil, sys
import farpoint_models
for module in pkgutil.walk_packages(farpoint_models.__path__, "farpoint_models."):
    if not module.name.endswith("__main__"):
        importlib.import_module(module.name)
assert "farpoint_models.train.trainer" in sys.modules
unwanted = {"grpc", "google", "farpoint", "farpoint_server", "rich"} & set(sys.modules)
sys.exit(f"loaded {unwanted}" if unwanted else 0)
"""


def test_no_module_loads_grpc() -> None:
    python = [sys.executable, "-c", CODE]
    result = subprocess.run(python, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr


def test_the_public_names_are_there() -> None:
    for name in farpoint_models.__all__:
        assert getattr(farpoint_models, name).__name__ == name
