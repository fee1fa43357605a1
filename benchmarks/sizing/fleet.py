"""From what a node sustains to fleets: many simulated nodes before many callers."""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.sizing.compare import MIXES
from benchmarks.sizing.model import Cost, Node, open_loop, run
from farpoint.cli.bench.load import Arrivals, Measured

TARGET_MS = 50.0
SIZES = (100, 1_000, 10_000)
FLEET_MIX = "mixed"
# Calls of a fleet, or so many for each node if that is more.
MOST_CALLS, LEAST_EACH = 100_000, 20
# Calls by which a node's rate is found: the p99 then stands on one hundred.
CALLS = 10_000
# What is offered to fleets, of what a node sustains alone.
SHARE = 0.9
SLOW_EVERY, SLOWNESS = 20, 2.0
POLICIES = {
    "random": "in turn, by many independent clients",
    "round_robin": "in turn, by one client",
    "one slow": "as the first; every twentieth node is half as fast",
    "one slow, weighted": "by weight, with the same slow nodes",
}


def fleet(costs: dict[str, list[Cost]]) -> dict[str, Any]:
    """What one node sustains of each mix, and fleets of one mix at nine tenths of that."""
    alone = {name: _sustained(_shares(name), of_mix) for name, of_mix in costs.items()}
    rate = SHARE * alone[FLEET_MIX]
    rows = []
    for nodes in SIZES:
        for policy in POLICIES:
            row = _fleet(nodes, policy, rate, costs[FLEET_MIX])
            rows.append(row)
            print(row, flush=True)
    return {"target_ms": TARGET_MS, "sustained_per_s": alone, "mix": FLEET_MIX, "fleets": rows}


def read_costs(mix: dict[str, Any]) -> list[Cost]:
    """Those of one mix in the results of `compare`."""
    return [Cost(**cost) for cost in mix["costs"]]


def as_markdown(results: dict[str, Any]) -> str:
    """What a node sustains, and fleets."""
    alone = "; ".join(f"{mix} {per_s:.4g}" for mix, per_s in results["sustained_per_s"].items())
    lines = [
        f"Simulated from the costs above. Calls a second that one node sustains at p99 <= "
        f"{results['target_ms']:g} ms: {alone}. Fleets get nine tenths of that for each node, "
        f'of the mix "{results["mix"]}". All begin idle, and larger ones get fewer calls a node, '
        "so rows of one size compare ways to share calls out, not sizes:",
        "",
        "| nodes | calls a second | calls of a node | calls go | p50, ms | p99, ms |",
        "|---|---|---|---|---|---|",
    ]
    for row in results["fleets"]:
        cells = f"{row['nodes']:,} | {row['offered_per_s']:,.0f} | {row['calls'] // row['nodes']}"
        cells += f" | {POLICIES[row['policy']]}"
        lines.append(f"| {cells} | {row['p50_ms']:.3g} | {row['p99_ms']:.3g} |")
    return "\n".join(lines)


def _shares(mix: str) -> list[float]:
    return [kind.share for kind in MIXES[mix]]


def _sustained(shares: Sequence[float], costs: Sequence[Cost]) -> float:
    """Calls a second at which one node keeps the target, to a hundredth."""
    weights = np.array(shares) / sum(shares)
    full = 1 / float(weights @ [cost.kernel_s + cost.wire_s for cost in costs])
    low, high = 0.0, full
    while high - low > full / 100:
        rate = (low + high) / 2
        arrivals = Arrivals.poisson(rate, CALLS / rate, shares, seed=1)
        places = np.zeros(len(arrivals.kinds), np.int64)
        p99 = run(partial(_run_nodes, [costs], arrivals, places)).percentile_ms(99)
        low, high = (rate, high) if p99 <= TARGET_MS else (low, rate)
    return low


def _fleet(nodes: int, policy: str, rate: float, costs: Sequence[Cost]) -> dict[str, Any]:
    """A fleet of which every twentieth node may be slow, at `rate` calls a second a node."""
    is_slow = np.arange(nodes) % SLOW_EVERY == 0
    slow = [
        replace(cost, kernel_s=SLOWNESS * cost.kernel_s, wire_s=SLOWNESS * cost.wire_s)
        for cost in costs
    ]
    of_nodes = [slow if "slow" in policy and s else costs for s in is_slow.tolist()]
    calls = max(MOST_CALLS, LEAST_EACH * nodes)
    arrivals = Arrivals.poisson(rate * nodes, calls / (rate * nodes), _shares(FLEET_MIX), seed=2)
    places = _places(policy, len(arrivals.kinds), is_slow)
    measured = run(partial(_run_nodes, of_nodes, arrivals, places))
    return {
        "nodes": nodes,
        "policy": policy,
        "offered_per_s": rate * nodes,
        "calls": len(arrivals.kinds),
        "p50_ms": measured.percentile_ms(50),
        "p99_ms": measured.percentile_ms(99),
    }


def _places(policy: str, calls: int, is_slow: NDArray[np.bool_]) -> NDArray[np.int64]:
    """The node of each call: in turn, or by chance, as the turns of many callers come out."""
    if policy == "round_robin":
        return np.arange(calls) % len(is_slow)
    weights = np.where(is_slow & ("weighted" in policy), 1 / SLOWNESS, 1.0)
    return np.random.default_rng(3).choice(len(is_slow), calls, p=weights / weights.sum())


async def _run_nodes(
    costs: Sequence[Sequence[Cost]], arrivals: Arrivals, places: NDArray[np.int64]
) -> Measured:
    return await open_loop([Node(1, of_node) for of_node in costs], arrivals, places)
