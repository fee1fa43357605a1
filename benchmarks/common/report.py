"""Results of all benchmarks: the machine, optional packages, tables, and one JSON file each."""

import importlib
import json
import platform
import sys
from collections.abc import Iterable, Sequence
from datetime import date
from functools import cache
from importlib import metadata
from pathlib import Path
from types import ModuleType
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
RESULTS = ROOT / "benchmarks" / "results"
Row = dict[str, Any]


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


def describe(*packages: str) -> dict[str, Any]:
    """Processor, Python, date and the versions of the packages that are installed."""
    versions = {name: version for name in packages if (version := _version(name))}
    return {
        "processor": _processor(),
        "python": sys.version.split()[0],
        "date": date.today().isoformat(),
        "versions": versions,
    }


def heading(machine: Row) -> str:
    """One line for the top of a table."""
    versions = ", ".join(f"{name} {version}" for name, version in machine["versions"].items())
    return f"{machine['processor']}; Python {machine['python']}; {machine['date']}; {versions}."


@cache
def _load(name: str) -> ModuleType | str:
    try:
        return importlib.import_module(name)
    except Exception as error:  # packages built for another torch raise errors of all kinds
        return (str(error).strip() or type(error).__name__).splitlines()[0]


def module(name: str) -> Any | None:
    """An optional module, or None where it is not installed or does not load here."""
    loaded = _load(name)
    return None if isinstance(loaded, str) else loaded


def missing(names: Iterable[str]) -> dict[str, str]:
    """Those of the modules that do not load, and why."""
    return {name: why for name in names if isinstance(why := _load(name), str)}


def shown(row: Row) -> Row:
    """The row, printed as soon as it is there."""
    print(json.dumps(row), file=sys.stderr, flush=True)
    return row


def number(value: float) -> str:
    """Three digits."""
    return f"{value:.0f}" if value >= 100 else f"{value:.3g}"


def grouped(value: int) -> str:
    return f"{value:,}".replace(",", " ")


def table(head: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """A Markdown table; floats have three digits."""
    cells = [[number(c) if isinstance(c, float) else str(c) for c in row] for row in rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in (head, ["---"] * len(head), *cells))


def write(name: str, report: Row) -> None:
    """Writes the report as `name`.json."""
    (RESULTS / f"{name}.json").write_text(json.dumps(report, indent=1) + "\n")
