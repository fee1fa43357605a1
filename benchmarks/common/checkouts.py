"""Before-and-after benchmarks of two checkouts: their PYTHONPATHs, and quotients of medians."""

import argparse
import os
import statistics
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = ("ops", "server", "client/src")


def folders(checkout: Path) -> list[str]:
    """Where Python finds that checkout's packages; clouds are this checkout's on both sides."""
    return [*(str(checkout / package) for package in PACKAGES), str(ROOT / "training")]


def environment(checkout: Path) -> dict[str, str]:
    """This process's environment, in which Python imports that checkout's packages."""
    return {**os.environ, "PYTHONPATH": os.pathsep.join(folders(checkout))}


def parser(doc: str) -> argparse.ArgumentParser:
    """With --before PATH and --rounds N."""
    parser = argparse.ArgumentParser(description=doc.splitlines()[0])
    parser.add_argument("--before", type=Path, required=True, help="a checkout with compiled ops")
    parser.add_argument("--rounds", type=int, default=15)
    return parser


def quotient(before: Sequence[float], after: Sequence[float]) -> str:
    """Median of `after` over that of `before`, and the quartiles of the rounds' own quotients."""
    ours, theirs = statistics.median(after), statistics.median(before)
    if not all((theirs, *before)):
        return "too short to compare"
    rounds = [a / b for a, b in zip(after, before, strict=True)]
    low, _, high = statistics.quantiles(rounds, n=4) if len(rounds) > 1 else rounds * 3
    return f"{ours / theirs:.3f} ({low:.3f}-{high:.3f})"
