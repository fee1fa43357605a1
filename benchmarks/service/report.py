"""Ratios to other servers and Markdown tables of the service benchmark."""

from collections.abc import Iterable, Sequence
from typing import Any

Row = dict[str, Any]
OURS = "farpoint, cloud and indices"
BARE = ("bare, protobuf", "bare, cloud and indices")


def ratios(rows: list[Row]) -> list[Row]:
    """Ours to theirs at the same place: echo p50 to bare gRPC, calls/s to every peer."""
    found = []
    for row in rows:
        if row["server"] not in (OURS, "farpoint"):
            continue
        for other in rows:
            if _place(other) == _place(row) and other is not row:
                key = "p50_ms" if other["server"] in BARE else "per_s"
                if key == "p50_ms" or _is_peer(other["server"]):
                    found.append(_ratio(key, row, other))
    return found


def _place(row: Row) -> tuple[object, ...]:
    return tuple(row.get(key) for key in ("mode", "points", "samples", "at"))


def _is_peer(name: str) -> bool:
    return not name.startswith(("bare", "farpoint"))


def _ratio(key: str, ours: Row, theirs: Row) -> Row:
    return {
        "mode": ours["mode"],
        "figure": key,
        "theirs": theirs["server"],
        "points": ours["points"],
        "samples": ours.get("samples", ""),
        "at": ours["at"],
        "ratio": ours[key] / theirs[key],
        "cpu_ratio": ours["cpu_ms"] / theirs["cpu_ms"] if theirs["cpu_ms"] else None,
    }


def table(head: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """In Markdown."""
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(map(str, line)) + " |" for line in lines)


def number(value: float) -> str:
    """Three digits."""
    return f"{value:.0f}" if value >= 100 else f"{value:.3g}"


def conditions(report: Row) -> str:
    """Machine, versions, effort, and who is left out and why."""
    machine = report["machine"]
    own = ", ".join(f"{name} {version}" for name, version in machine["versions"].items())
    lines = [
        f"{machine['processor']}; Python {machine['python']}; {machine['date']}; {own}.",
        f"Medians of {report['rounds']} rounds of {report['seconds']} s each; load average before: "
        + ", ".join(f"{load:.2f}" for load in report["load_average"])
        + f"; {report['minutes']:.1f} minutes.",
    ]
    for name, versions in report["peer_versions"].items():
        installed = ", ".join(f"{package} {version}" for package, version in versions.items())
        lines.append(f"Environment {name}: {installed}.")
    left_out = [f"Left out: {name}: {reason}." for name, reason in report["left_out"].items()]
    return "\n".join(f"* {line}" for line in lines + left_out)


def _ratios(rows: list[Row]) -> str:
    keys = ("mode", "figure", "theirs", "points", "samples", "at")
    return table(
        ("mode", "figure", "theirs", "N", "samples", "at", "ours / theirs", "CPU ratio"),
        (
            (*(r[key] for key in keys), f"{r['ratio']:.2f}", f"{r['cpu_ratio'] or 0:.2f}")
            for r in ratios(rows)
        ),
    )


def _measured(rows: list[Row], mode: str) -> str:
    keys = ("p50_ms", "p99_ms", "per_s", "cpu_ms")
    return table(
        ("server", "N", "samples", "at", "p50 ms", "p99 ms", "calls/s", "server CPU ms"),
        (
            (
                r["server"],
                r["points"],
                r.get("samples", ""),
                r["at"],
                *(number(r[k]) for k in keys),
            )
            for r in rows
            if r["mode"] == mode
        ),
    )


def weights(servers: dict[str, list[Row]]) -> str:
    """Idle CPU and memory of servers, by mode."""
    keys = ("idle_cpu_percent_before", "memory_mb_before", "memory_mb_after")
    return table(
        ("server", "mode", "processes", "idle CPU %", "MB before load", "MB after load"),
        (
            (row["server"], mode, row["processes"], *(number(row[key]) for key in keys))
            for mode, rows in servers.items()
            for row in rows
        ),
    )


def markdown(report: Row) -> str:
    rows = report["rows"]
    heights = {r["samples"]: r["height"] for r in rows if r["mode"] == "sample" and r["height"]}
    chosen = ", ".join(f"{height} for {samples}" for samples, height in heights.items())
    sections = [
        conditions(report),
        "## Ratios",
        _ratios(rows),
        "## Echo: no sampling",
        _measured(rows, "echo"),
        "## Sampling" + (f" (fpsample's tree height: {chosen})" if chosen else ""),
        _measured(rows, "sample"),
        "## Servers",
        "Memory is the proportional set size of all processes of a server.",
        weights(report["servers"]),
    ]
    return "\n\n".join(sections) + "\n"
