"""Kernels on the software runtime: planted faults are noticed, and what only counters can show."""

import subprocess
from pathlib import Path

import pytest
from kernels import Fault, build
from tests.softgpu.conftest import ROOT

LIBRARY = ROOT / "build" / "softgpu" / "packages" / "farpoint_ops" / "lib" / "libfarpoint_cuda.so"
PROGRAM = """
import farpoint_ops, numpy as np
from tests.support.clouds import coincident, duplicates, lattice, uniform, with_holes
def check(cloud, m, tree):
    xyz = torch.from_numpy(cloud)[None]
    for wanted in (True, False):
        rows, distances = torch.ops.farpoint._cuda_fps(
            xyz.cuda(), m, "auto", tree, return_distances=wanted)
        expected = farpoint_ops.farthest_point_sample(xyz, m, return_distances=True)
        assert torch.equal(rows.cpu(), expected[0])
        assert not wanted or torch.equal(distances.cpu(), expected[1])
for seed in range(3):
    rng = np.random.default_rng(seed)
    {checks}
"""
TREE = """
    check(uniform(rng, 9000), 120, [4, 2, 1, 1, 1])
    for shape, n, m in ((lattice, 5000, 150), (coincident, 300, 300), (duplicates, 900, 900),
                        (with_holes, 400, 400), (uniform, 2500, 20), (uniform, 150, 20)):
        check(shape(rng, n), m, [4, 2, 1, 1, 1])
"""
PARTITIONED = """
    check(uniform(rng, 900), 200, [2, 1, 0, 1, 4])
    check(lattice(rng, 700), 200, [2, 1, 0, 1, 4])
    for _ in range(12):
        check(duplicates(rng, 100), 60, [2, 1, 0, 1, 4])
"""
GATHER = """
    features, rows = torch.randn(2, 19, 50), torch.randint(50, (2, 64))
    assert torch.equal(farpoint_ops.gather_points(features.cuda(), rows.cuda()).cpu(),
                       farpoint_ops.gather_points(features, rows))
"""


def left_out(name: str, kernel: str, instruction: str, *numbers: int) -> dict[str, Fault]:
    return {f"{name} {i}": Fault(kernel, instruction, i) for i in numbers}


# In the order of the kernel's instructions. Of the tree's warp barriers the second and third stand
# in for each other: one is at the end of building, one before the first farthest point. The block's
# fourth, which other kernels need, follows one here.
TREE_KERNEL = "sample_in_treeILi2ELb1E"
IN_TREE = {
    **left_out("block barrier", TREE_KERNEL, r"bar\.sync\s+0", 0, 1, 2, *range(4, 10)),
    **left_out("warp barrier", TREE_KERNEL, r"bar\.warp\.sync\s+-1", 0, 3, 4),
    "one set of records instead of two": Fault(
        TREE_KERNEL, r"and\.b32\s+(%r\d+), (%r\d+), 1", 0, r"mov.u32 \1, 0;"
    ),
    "the nearest warp instead of the farthest": Fault(
        TREE_KERNEL, r"redux\.sync\.max\.u32 (.*?)", 7, r"redux.sync.min.u32 \1;"
    ),
    "the highest row of a tie": Fault(
        TREE_KERNEL, r"redux\.sync\.min\.s32 (.*?)", 6, r"redux.sync.max.s32 \1;"
    ),
    "a product that is rounded": Fault(
        TREE_KERNEL,
        r"fma\.rn\.f32\s+(%f\d+), (%f\d+), (%f\d+), (%f\d+)",
        5,
        r"mul.rn.f32 \1, \2, \3; add.rn.f32 \1, \1, \4;",
    ),
}
# What the blocks of a cloud owe one another: see csrc/cuda/fps/tree/peers.cuh. Without block
# barrier 3 or 4 a launch may go on for minutes; warp barriers 0 and 3 stand before others that do
# the same.
PARTS_KERNEL = "sample_partitionedILi1ELb0E"
BETWEEN_BLOCKS = {
    **left_out("barrier of a partition", PARTS_KERNEL, r"bar\.sync\s+0", 1, 2, 5),
    **left_out("warp barrier of a partition", PARTS_KERNEL, r"bar\.warp\.sync\s+-1", 1, 2, 4),
    "a word believed before its samples are seen": Fault(
        PARTS_KERNEL,
        r"cvt\.u32\.u64\s+(%r\d+), %rd\d+;\s*setp\.lt\.s32\s+(%p\d+), %r\d+, \1",
        0,
        r"setp.ne.u32 \2, 0, 0;",
    ),
    "a sample of another part applied too early": Fault(
        PARTS_KERNEL, r"setp\.le\.u64\s+(%p\d+), (%rd\d+), %rd\d+", 0, r"setp.ne.u64 \1, \2, \2;"
    ),
    "a point taken after one poll": Fault(
        PARTS_KERNEL, r"setp\.ge\.u64\s+(%p\d+), (%rd\d+), %rd\d+", 1, r"setp.ne.u64 \1, \2, \2;"
    ),
    "no part is ever near": Fault(PARTS_KERNEL, r"atom\.shared\.or\.b32.*?"),
    "samples that others take are lost": Fault(PARTS_KERNEL, r"atom\.shared\.add\.u32.*?"),
}
IN_GATHER = {
    "a row one too far": Fault(
        "gather_tile", r"ld\.global(\S*) (\S+), \[(%rd\d+)\]", 0, r"ld.global\1 \2, [\3+4];"
    ),
}
FAULTS = {
    **{name: (fault, TREE) for name, fault in IN_TREE.items()},
    **{name: (fault, PARTITIONED) for name, fault in BETWEEN_BLOCKS.items()},
    **{name: (fault, GATHER) for name, fault in IN_GATHER.items()},
}


def test_a_sample_goes_down_to_few_leaves(run):
    """Of 128, each of some four operations of a warp; five points far outside change nothing."""
    ended = run(
        """
        import farpoint_ops
        def operations(cloud, m):
            before = count("operations of warps")
            torch.ops.farpoint._cuda_fps(cloud.cuda(), m, "tree", [8, 1, 0, 1, 1])
            torch.cuda.synchronize()
            return count("operations of warps") - before
        random = torch.Generator().manual_seed(0)
        cube = torch.rand(1, 4096, 3, generator=random)
        far = cube.clone()
        far[0, :5] = 1e6 * torch.randn(5, 3, generator=random)
        for cloud in (cube, far):
            assert operations(cloud, 257) - operations(cloud, 1) < 256 * 120
        """
    )
    assert (ended.status, ended.findings) == (0, ""), ended.output


@pytest.mark.parametrize("processors", [4, 8])
def test_a_large_cloud_is_partitioned_where_there_are_processors(run, processors):
    program = """
    import farpoint_ops
    cloud = torch.rand(1, 32768, 3)
    rows = farpoint_ops.farthest_point_sample(cloud.cuda(), 256).cpu()
    assert torch.equal(rows, farpoint_ops.farthest_point_sample(cloud, 256))
    """
    ended = run(program, PROCESSORS=processors)
    assert (ended.status, ended.findings) == (0, ""), ended.output
    partitioned = any("sample_partitioned" in name for name in ended.counters)
    assert partitioned is (processors > 4)


@pytest.mark.parametrize(
    ("sizes", "message"),
    [
        ((10, 10, 2), "more samples than max_samples"),
        ((10, 9, 6), "a cloud exceeds max_points"),
        ((9, 10, 6), "sample_offsets go beyond the output"),
    ],
)
def test_sizes_that_the_device_contradicts_are_refused(run, sizes, message):
    """A caller of the registered op gives sizes to the host and offsets to the device."""
    ended = run(
        f"""
        import farpoint_ops
        offsets, slots = torch.tensor([0, 10, 20]).cuda(), torch.tensor([0, 4, 10]).cuda()
        torch.ops.farpoint.furthest_point_sample_ragged(
            torch.rand(20, 3).cuda(), offsets, slots, None, *{sizes}, False)
        torch.cuda.synchronize()
        """
    )
    assert ended.status != 0
    assert message in ended.findings


@pytest.mark.timeout(600)
def test_the_training_example_learns_on_a_device(run):
    ended = run(
        """
        import runpy, sys
        sys.argv = ["train_classifier.py", "--steps", "10", "--classes", "2", "--device", "cuda"]
        runpy.run_path("examples/train_classifier.py")["main"]()
        """,
        timeout_s=600,
    )
    assert ended.status == 0, ended.output
    assert "step   10" in ended.output


@pytest.mark.parametrize("checks", [TREE, PARTITIONED, GATHER], ids=["tree", "parts", "gather"])
def test_without_a_fault_the_programs_pass(run, checks):
    ended = run(PROGRAM.format(checks=checks), PROCESSORS=4)
    assert (ended.status, ended.findings) == (0, ""), ended.output


@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_in_a_kernel_is_noticed(run, tmp_path: Path, name: str):
    fault, checks = FAULTS[name]
    kernels = tmp_path / "kernels.so"
    only = fault.kernel if checks == GATHER else f"{fault.kernel}|4tree12_GLOBAL"  # with sorts
    build(LIBRARY, kernels, tmp_path, only=only, fault=fault)
    try:
        ended = run(PROGRAM.format(checks=checks), KERNELS=kernels, PROCESSORS=4)
    except subprocess.TimeoutExpired:
        return
    assert ended.status != 0
