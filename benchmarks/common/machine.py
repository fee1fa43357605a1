"""Processor, Python and package versions, recorded beside every result."""

import platform
import sys
from datetime import date
from importlib import metadata
from pathlib import Path


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor()
    names = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    return f"{names[0]}, {len(names)} cores" if names else platform.machine()


def _version(package: str) -> str | None:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


def describe(*packages: str) -> dict[str, object]:
    """Processor, Python, date and the versions of the packages that are installed."""
    versions = {name: version for name in packages if (version := _version(name))}
    return {
        "processor": _processor(),
        "python": sys.version.split()[0],
        "date": date.today().isoformat(),
        "versions": versions,
    }
