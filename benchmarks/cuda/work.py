"""Work of the tree kernel, counted by its CPU model: leaves and nodes that a sample goes down to.

Of one cloud by several blocks: how many samples of other parts each sample brings along. Nothing
is timed: the counts are the kernels' own. Needs a C++ compiler, no GPU. Run as
`python -m benchmarks.cuda.work`, which prints the Markdown tables of docs/performance_cuda.md.
"""

import argparse

import numpy as np
from numpy.typing import NDArray
from tests.support.clouds import street_scan
from tests.support.cuda.on_cpu import Method, TreeShape, planned_tree, sample, work

SIZES = (1024, 4096, 16_384, 26_912)
SHARES = (32, 8, 4)  # m = n / share
LEAF = 32
PARTS = (4, 8, 16, 32)  # of PARTED points, a quarter of which is sampled
PARTED = 16_384


def clouds(points: int) -> dict[str, NDArray[np.float32]]:
    """Rows in random order: a real scan thinned, and a cube."""
    rng = np.random.default_rng(points)
    scan = street_scan()[:, :3]
    thinned = scan[rng.permutation(len(scan))[:points]]
    return {
        "street LiDAR, real": np.ascontiguousarray(thinned),
        "uniform cube": rng.random((points, 3), dtype=np.float32),
    }


def counted(cloud: NDArray[np.float32], m: int, shape: TreeShape) -> tuple[float, float]:
    """Leaves and nodes a sample."""
    work()
    sample([cloud], [m], method=Method.TREE, shape=shape)
    leaves, nodes, _ = work()
    return leaves / m, nodes / m


def print_parts() -> None:
    """The table of one cloud by several blocks."""
    print("\n| points | m | cloud | parts | leaves | samples of other parts |")
    print("|---|---|---|---|---|---|")
    for name, cloud in clouds(PARTED).items():
        for parts in PARTS:
            warps = max(1, 16 // parts)  # as few as hold a part: the model's time goes with them
            m = PARTED // 4
            work()
            sample([cloud], [m], shape=TreeShape(warps, 1, False, True, parts))
            leaves, _, of_others = work()
            row = (PARTED, m, name, parts, f"{leaves / m:.1f}", f"{of_others / m:.2f}")
            print(f"| {' | '.join(map(str, row))} |")


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--most", type=int, default=SIZES[-1], help="largest number of points")
    most = parser.parse_args().most
    print("| points | m | cloud | warps | leaves | nodes | points updated | of all leaves |")
    print("|---|---|---|---|---|---|---|---|")
    for n in (n for n in SIZES if n <= most):
        shape = planned_tree(1, n).shape
        for name, cloud in clouds(n).items():
            for m in (n // share for share in SHARES):
                leaves, nodes = counted(cloud, m, shape)
                part = leaves * LEAF / n
                row = (n, m, name, shape.warps, f"{leaves:.1f}", f"{nodes:.1f}")
                print(f"| {' | '.join(map(str, row))} | {leaves * LEAF:.0f} | {part:.1%} |")
    if parser.parse_args().most >= PARTED:
        print_parts()


if __name__ == "__main__":
    main()
