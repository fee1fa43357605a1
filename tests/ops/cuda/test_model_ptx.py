"""nvcc's PTX of the kernels, executed on the CPU model: exact, and faults in it are noticed.

FARPOINT_MODEL=ptx runs every test of this folder on the PTX of every kernel (`make gpu-model`);
here are the sampling kernels, and what faults do to them. A thread's stores reach others late and
out of order until something orders them, so a barrier that is missing shows.
"""

import multiprocessing

import numpy as np
import pytest
from tests.support.awkward_clouds import (
    SHAPES,
    Cloud,
    coincident,
    duplicates,
    lattice,
    uniform,
    with_holes,
)
from tests.support.cuda.model import Executed, executes_ptx, executing, has_nvcc
from tests.support.cuda.on_cpu import Method, TreeShape, brute_force, check_exact, sample
from tests.support.cuda.ptx.module import Fault

# The first test builds the model.
pytestmark = [
    pytest.mark.skipif(not has_nvcc(), reason="needs nvcc"),
    pytest.mark.timeout(600),
]
SAMPLING = Executed(
    "ptx_sampling",
    frozenset(
        {
            "tree_kernel",
            "block_sort_kernel",
            "pieces_sort_kernel",
            "grid_kernel",
            "partitioned_kernel",
            "merge_partitions_kernel",
        }
    ),
)
TREE = TreeShape(warps=4, levels=2, in_shared=True, sorts_in_block=True)
PARTITIONED = TreeShape(warps=2, levels=1, in_shared=False, sorts_in_block=True, partitions=4)
# The source and the kernel in it that has a fault.
KERNELS = {
    TREE: ("tree_kernel", "sample_in_treeILi2ELb1E"),
    PARTITIONED: ("partitioned_kernel", "sample_partitionedILi1ELb0E"),
}
# In the order of the kernel's instructions. Of its warp barriers the second and third stand in for
# each other: one is at the end of building, one before the first farthest point. The block's
# fourth, which other kernels need, follows one here.
BARRIERS = {
    **{f"block barrier {i}": Fault(r"bar\.sync\s+0", i) for i in (0, 1, 2, *range(4, 10))},
    **{f"warp barrier {i}": Fault(r"bar\.warp\.sync\s+-1", i) for i in (0, 3, 4)},
}
ARITHMETIC = {
    "one set of records instead of two": Fault(
        r"and\.b32\s+(%r\d+), (%r\d+), 1", 0, r"mov.u32 \1, 0;"
    ),
    "the nearest warp instead of the farthest": Fault(
        r"redux\.sync\.max\.u32 (.*?)", 9, r"redux.sync.min.u32 \1;"
    ),
    "the highest row of a tie": Fault(r"redux\.sync\.min\.s32 (.*?)", 6, r"redux.sync.max.s32 \1;"),
    "a product that is rounded": Fault(
        r"fma\.rn\.f32\s+(%f\d+), (%f\d+), (%f\d+), (%f\d+)",
        6,
        r"mul.rn.f32 \1, \2, \3; add.rn.f32 \1, \1, \4;",
    ),
}
FAULTS = BARRIERS | ARITHMETIC
# What the blocks of a cloud owe one another: see csrc/cuda/fps/tree/peers.cuh. Without block
# barrier 3 or 4 a launch may go on for minutes; warp barriers 0 and 3 stand before others that do
# the same.
FAULTS_BETWEEN_BLOCKS = {
    **{f"barrier {i} of a partition": Fault(r"bar\.sync\s+0", i) for i in (1, 2, 5)},
    **{f"warp barrier {i} of a partition": Fault(r"bar\.warp\.sync\s+-1", i) for i in (1, 2, 4)},
    "a word believed before its samples are seen": Fault(
        r"cvt\.u32\.u64\s+(%r\d+), %rd\d+;\s*setp\.lt\.s32\s+(%p\d+), %r\d+, \1",
        0,
        r"setp.ne.u32 \2, 0, 0;",
    ),
    "a sample of another part applied too early": Fault(
        r"setp\.le\.u64\s+(%p\d+), (%rd\d+), %rd\d+", 0, r"setp.ne.u64 \1, \2, \2;"
    ),
    "a point taken after one poll": Fault(
        r"setp\.ge\.u64\s+(%p\d+), (%rd\d+), %rd\d+", 1, r"setp.ne.u64 \1, \2, \2;"
    ),
    "no part is ever near": Fault(r"atom\.shared\.or\.b32.*?", 0),
    "samples that others take are lost": Fault(r"atom\.shared\.add\.u32.*?", 0),
}
# Builds and runs in a second each; all of them are in `make gpu-model`.
FEW = ("block barrier 2", "warp barrier 4", "one set of records instead of two")
FEW_BETWEEN_BLOCKS = ("a word believed before its samples are seen",)


def clouds(seed: int) -> list[tuple[Cloud, int, int]]:
    """Clouds, numbers of samples and starts that reach every part of the kernel."""
    rng = np.random.default_rng(seed)
    no_start = [uniform(rng, n) for n in (2500, 1000, 500, 300, 200, 150)]
    for cloud in no_start:
        cloud[7] = np.nan
    return [
        (uniform(rng, 9000), 120, 5),
        (lattice(rng, 5000), 150, 9),
        *((cloud, 20, 7) for cloud in no_start),
        (coincident(rng, 300), 300, 17),
        (duplicates(rng, 900), 900, 3),
        (with_holes(rng, 400), 400, 6),
    ]


def check(
    batch: list[tuple[Cloud, int, int]], method: Method, seed: int, shape: TreeShape | None
) -> None:
    points, counts, starts = map(list, zip(*batch, strict=True))
    check_exact(points, counts, starts, method, seed, shape)
    # Without distances the last sample is put down behind the loop.
    indices, _ = sample(points, counts, starts, method, seed, shape, with_distances=False)
    for found, (cloud, m, start) in zip(indices, batch, strict=True):
        np.testing.assert_array_equal(found, brute_force(cloud, m, start)[0])


def partitioned_clouds(seed: int) -> list[tuple[Cloud, int, int]]:
    rng = np.random.default_rng(seed)
    return [
        (uniform(rng, 900), 200, 5),
        (lattice(rng, 700), 200, 9),
        *((duplicates(rng, 100), 60, 5) for _ in range(12)),
    ]


def check_planted(name: str | None, shape: TreeShape, seeds: int = 3) -> None:
    source, kernel = KERNELS[shape]
    fault = (FAULTS | FAULTS_BETWEEN_BLOCKS)[name] if name else None
    build = f"fault_{name}_{fault.number}" if fault else f"fault_{source}"
    executed = Executed(build.replace(" ", "_"), frozenset({source}), kernel, fault)
    with executing(executed):
        for seed in range(seeds):
            batch = clouds(seed) if shape.partitions == 1 else partitioned_clouds(seed)
            check(batch, Method.TREE, seed, shape)


def ends_well(name: str | None, shape: TreeShape) -> bool:
    """Whether a kernel is exact with this fault. A wrong row may well end the process."""
    process = multiprocessing.get_context("spawn").Process(target=check_planted, args=(name, shape))
    process.start()
    process.join()
    return process.exitcode == 0


@pytest.mark.parametrize("cloud", SHAPES)
@pytest.mark.parametrize(
    ("method", "shape"),
    [
        (Method.GRID, None),
        (Method.TREE, TreeShape(2, 1, False, False)),
        (Method.TREE, TREE),
        (Method.TREE, TreeShape(2, 3, False, True)),
        (Method.PARTITIONED, TreeShape(1, 1, False, True, partitions=4)),
    ],
)
def test_every_kernel_is_exact(method: Method, shape: TreeShape | None, cloud: object) -> None:
    rng = np.random.default_rng(3)
    assert callable(cloud)
    with executing(SAMPLING):
        check([(cloud(rng, 700), 90, 5), (cloud(rng, 65), 65, 64)], method, 3, shape)


@pytest.mark.parametrize("shape", [TREE, PARTITIONED])
def test_the_kernel_without_a_fault_is_exact(shape: TreeShape) -> None:
    assert ends_well(None, shape)


@pytest.mark.parametrize("name", FAULTS if executes_ptx() else FEW)
def test_a_fault_is_noticed(name: str) -> None:
    assert not ends_well(name, TREE)


@pytest.mark.parametrize("name", FAULTS_BETWEEN_BLOCKS if executes_ptx() else FEW_BETWEEN_BLOCKS)
def test_a_fault_between_blocks_is_noticed(name: str) -> None:
    assert not ends_well(name, PARTITIONED)
