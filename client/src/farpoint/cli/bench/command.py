"""The options of `farpoint bench`; the code behind them is imported when the command runs."""

from dataclasses import dataclass
from pathlib import Path

from typer import Option

from farpoint.cli.connection import Connection


@dataclass(frozen=True)
class Arguments:
    """The command line as it was given; OPTIONS describes each field."""

    sizes: list[str] | None = None
    cloud: Path | None = None
    target_ms: float = 100.0
    percentile: float = 99.0
    seconds: float = 10.0
    rate: list[float] | None = None
    first_rate: float = 10.0
    processes: int = 1
    as_json: bool = False


OPTIONS = {
    "sizes": Option(
        "--size",
        metavar="POINTS:SAMPLES[:SHARE]",
        help="A kind of request; repeat it for a mix.",
        show_default="16384:1024",
    ),
    "cloud": Option(metavar="FILE", help="Cloud to draw points from; else a wavy surface."),
    "target_ms": Option(min=0.001, help="Latency to keep, from when a call was due."),
    "percentile": Option(min=1, max=100, help="Percent of the calls that must keep it."),
    "seconds": Option(min=0.1, help="Duration of each rate."),
    "rate": Option(
        metavar="PER_S",
        min=0.001,
        help="A rate in calls a second; repeat it for several.",
        show_default="rising until the target is missed",
    ),
    "first_rate": Option(min=0.001, help="The first rate of those that rise."),
    "processes": Option(min=1, help="Processes that make calls; one makes some 1 500 a second."),
    "as_json": Option("--json", help="Print JSON."),
}


def bench(connection: Connection, arguments: Arguments) -> None:
    """Load a server at rising rates, and find the rate it sustains at a latency target.

    Calls are sent when they are due, like those of many independent callers, however long answers
    take. It is a test under full load: other callers of the server will feel it.
    """
    from farpoint.cli.bench.run import run

    run(connection, arguments)
