"""`python -m benchmarks.sizing compare` and `fleet`: results as JSON and in docs/sizing.md."""

import argparse
import json
import os
import re
from pathlib import Path
from typing import Any

from benchmarks.common.machine import describe
from benchmarks.sizing import fleet
from benchmarks.sizing.compare import LOADS, compare

RESULTS, PAGE = Path("benchmarks/results"), Path("docs/sizing.md")
# What the simulation is held to.
WITHIN = 0.15


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.sizing", description=__doc__)
    parser.add_argument("what", choices=["compare", "fleet"])
    parser.add_argument("--rounds", type=int, default=3, help="of compare")
    parser.add_argument("--seconds", type=float, default=6.0, help="of each load of compare")
    arguments = parser.parse_args()
    machine = describe("grpcio", "torch", "numpy") | {"load_average": os.getloadavg()[0]}
    path = RESULTS / f"sizing_{arguments.what}.json"
    if arguments.what == "compare":
        results = compare(arguments.rounds, arguments.seconds)
        table = _compared(results, machine)
    else:
        measured = json.loads((RESULTS / "sizing_compare.json").read_text())["results"]
        results = fleet.fleet({name: fleet.read_costs(mix) for name, mix in measured.items()})
        table = fleet.as_markdown(results)
    path.write_text(json.dumps({"machine": machine, "results": results}, indent=1) + "\n")
    _fill(PAGE, arguments.what, table)
    print(table)


def _compared(results: dict[str, Any], machine: dict[str, Any]) -> str:
    """Measured, then simulated."""
    loads = " | ".join(f"p99 at {load:.0%}, ms" for load in LOADS)
    rows, within, cells = [], 0, 0
    for name, mix in results.items():
        found, model = mix["measured"], mix["simulated"]
        pairs = [(found["per_s"], model["per_s"])]
        pairs += [(found["p99_ms"][load], model["p99_ms"][load]) for load in LOADS]
        within += sum(abs(simulated / measured - 1) <= WITHIN for measured, simulated in pairs)
        cells += len(pairs)
        texts = [f"{m:.4g} · {s:.4g} ({s / m - 1:+.0%})" for m, s in pairs]
        rows.append(f"| {name} | {' | '.join(texts)} |")
    where = f"{machine['date']}, {machine['processor']}, load average {machine['load_average']:.1f}"
    return "\n".join(
        [
            f"Measured · simulated ({where} as it began); {within} of {cells} are within 15 %:",
            "",
            f"| mix | calls a second | {loads} |",
            "|---|---|" + "---|" * len(LOADS),
            *rows,
        ]
    )


def _fill(page: Path, what: str, table: str) -> None:
    """Puts a table between its marks."""
    mark = re.compile(rf"(<!-- {what} -->\n).*?(<!-- end of {what} -->)", re.DOTALL)
    page.write_text(mark.sub(lambda m: f"{m[1]}{table}\n{m[2]}", page.read_text()))


if __name__ == "__main__":
    main()
