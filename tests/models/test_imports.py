"""The models run without the service: nothing in them loads gRPC or the client."""

import subprocess
import sys

CODE = """
import importlib, pkgutil, sys
import farpoint_models, farpoint_training
for package in (farpoint_models, farpoint_training):
    for module in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
        if not module.name.endswith("__main__"):
            importlib.import_module(module.name)
assert "farpoint_training.trainer" in sys.modules
unwanted = {"grpc", "google", "farpoint", "farpoint_server", "rich"} & set(sys.modules)
sys.exit(f"loaded {unwanted}" if unwanted else 0)
"""


def test_no_module_loads_grpc() -> None:
    python = [sys.executable, "-c", CODE]
    result = subprocess.run(python, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr
