"""Target ratios of latency and throughput: ours to bare gRPC and to other servers."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

Row = dict[str, Any]
# The peers that a factor is wanted of.
JUDGED = ("MLServer", "Ray")
OURS = "farpoint, cloud and indices"
SLOWER_AT_MOST = 1.3
FASTER_AT_LEAST = 3.0


@dataclass(frozen=True)
class Ratio:
    """Ours to theirs, and what is wanted of it; None where nothing is. CPU is the servers'."""

    what: str
    points: int
    at: int
    ours: float
    theirs: float
    ratio: float
    cpu_ratio: float
    wanted: str | None
    met: bool | None


def _ratio(
    what: str, key: str, ours: Row, theirs: Row, wanted: str | None, good: Callable[[float], bool]
) -> Ratio:
    ratio = ours[key] / theirs[key]
    return Ratio(
        what=what,
        points=ours["points"],
        at=ours["at"],
        ours=ours[key],
        theirs=theirs[key],
        ratio=ratio,
        cpu_ratio=ours["cpu_ms"] / theirs["cpu_ms"] if theirs["cpu_ms"] else float("nan"),
        wanted=wanted,
        met=good(ratio) if wanted else None,
    )


def _close(what: str, ours: Row, theirs: Row, *, wanted: bool) -> Ratio:
    limit = f"≤ {SLOWER_AT_MOST:g}" if wanted else None
    return _ratio(what, "p50_ms", ours, theirs, limit, lambda r: r <= SLOWER_AT_MOST)


def _faster(what: str, ours: Row, theirs: Row, *, wanted: bool) -> Ratio:
    limit = f"≥ {FASTER_AT_LEAST:g}" if wanted else None
    return _ratio(what, "per_s", ours, theirs, limit, lambda r: r >= FASTER_AT_LEAST)


def echo_ratios(rows: list[Row]) -> list[Ratio]:
    """p50 beside bare gRPC everywhere; calls a second beside every peer at the most callers."""
    rows = [row for row in rows if row["mode"] == "echo"]
    own = [row for row in rows if row["server"] == OURS]
    by_place = {(row["server"], row["points"], row["at"]): row for row in rows}
    bare = {"bare, protobuf": True, "bare, cloud and indices": False}
    peers = [n for n in dict.fromkeys(row["server"] for row in rows) if _is_peer(n)]
    most = max(row["at"] for row in own)
    p50 = [
        _close(f"echo p50 : {name}", row, by_place[name, row["points"], row["at"]], wanted=wanted)
        for name, wanted in bare.items()
        for row in own
    ]
    return p50 + [
        _faster(f"echo calls/s : {name}", row, theirs, wanted=name.startswith(JUDGED))
        for name in peers
        for row in own
        if row["at"] == most and (theirs := by_place.get((name, row["points"], most)))
    ]


def sampling_ratios(rows: list[Row]) -> list[Ratio]:
    """Calls a second beside the best peer of each place."""
    rows = [row for row in rows if row["mode"] == "sample"]
    ratios = []
    for row in (row for row in rows if row["server"] == "farpoint"):
        place = [r for r in rows if (r["samples"], r["at"]) == (row["samples"], row["at"])]
        if peers := [r for r in place if _is_peer(r["server"])]:
            best = max(peers, key=lambda r: r["per_s"])
            what = f"sampling {row['samples']} calls/s : {best['server']} (best peer)"
            ratios.append(_faster(what, row, best, wanted=True))
    return ratios


def _is_peer(name: str) -> bool:
    return not name.startswith(("bare", "farpoint"))


def ratios(rows: list[Row]) -> list[Ratio]:
    return echo_ratios(rows) + sampling_ratios(rows)
