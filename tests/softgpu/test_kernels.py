"""Kernels on the software runtime: what only its counters and findings can show."""

import pytest


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
