"""The options of `farpoint bench`; the code behind them is imported when the command runs."""

from dataclasses import dataclass

from farpoint.cli.connection import Options
from farpoint.errors import InvalidArgumentError


@dataclass(frozen=True)
class Arguments:
    """The command line as it was given; OPTIONS describes each field."""

    sizes: list[str] | None = None
    cloud: str | None = None
    target_ms: float = 100.0
    percentile: float = 99.0
    seconds: float = 10.0
    rate: list[float] | None = None
    first_rate: float = 10.0
    processes: int = 1
    as_json: bool = False

    def __post_init__(self) -> None:
        values = (self.target_ms, self.seconds, self.first_rate, self.processes)
        if min(*values, *(self.rate or [1])) <= 0 or not 1 <= self.percentile <= 100:
            raise InvalidArgumentError(
                "--target-ms, --seconds, --rate, --first-rate and --processes must be above 0, "
                f"--percentile from 1 to 100, got {self}",
                field="options",
            )


OPTIONS: Options = {
    "sizes": (
        "--size POINTS:SAMPLES[:SHARE]",
        "A kind of request (16384:1024); repeat it for a mix.",
    ),
    "cloud": ("--cloud FILE", "Cloud to draw points from; else a wavy surface."),
    "target_ms": ("--target-ms MS", "Latency to keep, from when a call was due (100)."),
    "percentile": ("--percentile P", "Percent of the calls that must keep it (99)."),
    "seconds": ("--seconds S", "Duration of each rate (10)."),
    "rate": (
        "--rate PER_S",
        "A rate in calls a second; repeat it for several (rising until the target is missed).",
    ),
    "first_rate": ("--first-rate PER_S", "The first rate of those that rise (10)."),
    "processes": ("--processes N", "Processes that make calls; one makes some 1 500 a second."),
    "as_json": ("--json", "Print JSON."),
}
