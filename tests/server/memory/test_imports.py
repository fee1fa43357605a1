"""The memory package runs where only torch is installed, as on a bare GPU machine."""

import subprocess
import sys

PROGRAM = """
import importlib, pkgutil, sys
for name in ("grpc", "google.protobuf", "structlog", "pydantic", "pydantic_settings"):
    sys.modules[name] = None
import farpoint_server.memory as package
for module in pkgutil.iter_modules(package.__path__):
    importlib.import_module(f"{package.__name__}.{module.name}")
"""


def test_no_module_needs_more_than_torch():
    subprocess.run([sys.executable, "-c", PROGRAM], check=True)
