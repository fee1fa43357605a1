"""Memory follows the answer, whatever an argument allows: calls in one process with a limit."""

import subprocess
import sys

import pytest

PROGRAM = """
import resource, sys, torch, farpoint_ops
from farpoint_ops.compat import knn_cuda, pointnet2_stack, pytorch3d, torch_cluster
x = torch.rand(50, 3, generator=torch.Generator().manual_seed(0))
wide = torch.rand(300, 1024, generator=torch.Generator().manual_seed(0))
many = 2**31 - 1
torch_cluster.knn(wide[:4], wide[:4], 2), torch_cluster.radius_graph(x, 0.1)  # threads, libraries
used = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (used + (200 << 20),) * 2)
for line in sys.argv[1].splitlines():
    try:
        said = eval(line)
    except RuntimeError as error:
        said = str(error)
    print("right" if said is True or torch.is_tensor(said) and bool(said) else f"{line}: {said}")
"""
# A line is true for the right answer. Pairs of `wide` times their dimensions are 369 MB.
CALLS = """
torch_cluster.radius(x, x[:5], 0.5, None, None, many).equal(near(x, x[:5]))
torch_cluster.radius(x, x[:5], 0.5, None, None, 1000).equal(near(x, x[:5]))
torch_cluster.radius_graph(x, 0.5, None, True, many).equal(near(x, x).flip(0))
torch_cluster.radius(wide, wide, 12.9, None, None, many, 1, None, True).size(1) > 0
torch_cluster.knn(x, x[:5], many).shape == (2, 250)
torch_cluster.knn_graph(x, many).shape == (2, 50 * 49)
torch_cluster.knn_graph(wide, 4).shape == (2, 1200)
torch_cluster.knn_graph(wide, 4, cosine=True).shape == (2, 1200)
torch_cluster.fps(x, torch.arange(2).repeat_interleave(25) * 2**40).shape == (26,)
torch_cluster.fps(x, batch_size=2**40).shape == (25,)
pytorch3d.knn_points(wide[None], wide[None], norm=1, K=4).idx.shape == (1, 300, 4)
pytorch3d.knn_points(x[None, :1], x[None], K=1 << 20).idx[0, 0, 50:].any() == False
pytorch3d.ball_query(x[None, :1], x[None], K=1 << 20, return_nn=False).idx.max() < 50
knn_cuda.KNN(4, True)(wide[None], wide[None])[1].shape == (1, 300, 4)
farpoint_ops.knn(x[None], x[None, :1], 1 << 22)[0].max() < 50
farpoint_ops.ball_query(x[None], x[None, :1], 0.5, 1 << 22)[0].max() < 50
farpoint_ops.voxel_grid_sample(x, 1e-7)[0].shape == (50,)
"""
NEAR = "near = lambda x, y: ((y[:, None] - x).square().sum(-1) < 0.25).nonzero().T\n"


@pytest.mark.skipif(sys.platform != "linux", reason="the size of a process is Linux's")
def test_a_call_needs_no_more_than_its_answer() -> None:
    lines = CALLS.strip()
    run = subprocess.run(
        [sys.executable, "-c", NEAR + PROGRAM, lines], capture_output=True, text=True, check=False
    )
    assert run.stdout.splitlines() == ["right"] * len(lines.splitlines()), run.stderr
