"""Runs an attack scenario by its name, and prints its table.

python -m benchmarks.attacks SCENARIO [--help]
"""

import argparse
from collections.abc import Callable, Sequence

from benchmarks.attacks import edge, fairness, inflate

SCENARIOS: dict[str, Callable[[Sequence[str]], None]] = {
    "edge": edge.main,
    "fairness": fairness.main,
    "inflate": inflate.main,
}
"""Each gets the rest of the command line."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("scenario", choices=SCENARIOS)
    parser.add_argument("options", nargs=argparse.REMAINDER, help="of the scenario")
    chosen = parser.parse_args()
    SCENARIOS[chosen.scenario](chosen.options)


if __name__ == "__main__":
    main()
