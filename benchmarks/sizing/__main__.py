"""`python -m benchmarks.sizing compare` and `fleet`; see docs/sizing.md."""

import argparse
import json
from pathlib import Path
from typing import Any

from benchmarks.common.machine import describe
from benchmarks.sizing.compare import LOADS, compare
from benchmarks.sizing.fleet import fleet, read_costs, show

RESULTS = Path("benchmarks/results")


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.sizing", description=__doc__)
    parser.add_argument("what", choices=["compare", "fleet"])
    parser.add_argument("--rounds", type=int, default=4, help="of compare")
    parser.add_argument("--seconds", type=float, default=6.0, help="of each load of compare")
    parser.add_argument(
        "--costs", type=Path, default=RESULTS / "sizing_compare.json", help="of fleet"
    )
    parser.add_argument("--out", type=Path, help="default: benchmarks/results/sizing_WHAT.json")
    arguments = parser.parse_args()
    if arguments.what == "compare":
        results = compare(arguments.rounds, arguments.seconds)
        _show(results)
    else:
        measured = json.loads(arguments.costs.read_text())
        results = fleet({name: read_costs(mix) for name, mix in measured["results"].items()})
        show(results)
    out = arguments.out or RESULTS / f"sizing_{arguments.what}.json"
    machine = describe("grpcio", "torch", "numpy")
    out.write_text(json.dumps({"machine": machine, "results": results}, indent=1) + "\n")


def _show(results: dict[str, Any]) -> None:
    """A table of Markdown: measured, then simulated."""
    print("| mix | calls a second |", " | ".join(f"p99 at {load:.0%}, ms" for load in LOADS), "|")
    print("|---|" + "---|" * (1 + len(LOADS)))
    for name, mix in results.items():
        found, model = mix["measured"], mix["simulated"]
        cells = [_cell(found["per_s"], model["per_s"])]
        cells += [_cell(found["p99_ms"][load], model["p99_ms"][load]) for load in LOADS]
        print(f"| {name} |", " | ".join(cells), "|")


def _cell(measured: float, simulated: float) -> str:
    return f"{measured:.4g} · {simulated:.4g} ({simulated / measured - 1:+.0%})"


if __name__ == "__main__":
    main()
