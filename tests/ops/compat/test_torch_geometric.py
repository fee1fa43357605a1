"""The drop-in as ``sys.modules["torch_cluster"]`` under PyTorch Geometric.

Small packages import and call it as releases 2.3, 2.7 and 2.8 do; the package itself is
tested where it is installed.
"""

import importlib.util
import sys
from multiprocessing import get_context
from pathlib import Path

import pytest
import torch

# Of forks next to threads, which the child does without.
pytestmark = pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")

IMPORTS = {
    "2.3": {
        "typing": "",
        "utils": """
import torch
try:
    import torch_cluster
    random_walk = torch.ops.torch_cluster.random_walk
except ImportError:
    random_walk = None
""",
        "nn": """
import torch_cluster
from torch_cluster import graclus_cluster, grid_cluster, knn, knn_graph
def fps(x, batch=None, ratio=0.5, random_start=True):
    return torch_cluster.fps(x, batch, ratio, random_start)
""",
    },
    "2.7": {
        "typing": """
import torch_cluster
WITH_TORCH_CLUSTER_BATCH_SIZE = "batch_size" in torch_cluster.knn.__doc__
""",
        "utils": "",
        "nn": """
from torch_cluster import graclus_cluster, grid_cluster
from torch_geometric.typing import torch_cluster, WITH_TORCH_CLUSTER_BATCH_SIZE
def fps(x, batch=None, ratio=0.5, random_start=True, batch_size=None):
    if not WITH_TORCH_CLUSTER_BATCH_SIZE:
        return torch_cluster.fps(x, batch, ratio, random_start)
    return torch_cluster.fps(x, batch, ratio, random_start, batch_size)
def knn(x, y, k, batch_x=None, batch_y=None):
    return torch_cluster.knn(x, y, k, batch_x, batch_y, False, 1, None)
""",
    },
    "2.8": {
        "typing": """
import importlib.util
assert importlib.util.find_spec("torch_cluster") is not None
WITH_FPS = WITH_KNN = WITH_RADIUS = WITH_NEAREST = WITH_GRID_CLUSTER = WITH_GRACLUS = False
""",
        "utils": "",
        "nn": """
import torch, torch_geometric.typing
def fps(x, batch=None, ratio=0.5, random_start=True):
    if not torch_geometric.typing.WITH_FPS:
        raise ImportError("'fps' requires 'pyg-lib>=0.6.0'")
    return torch.ops.pyg.fps(x, torch.tensor([0, 20, 40]), ratio, random_start)
def knn(x, y, k, batch_x=None, batch_y=None):
    assert torch_geometric.typing.WITH_KNN
    ends = torch.tensor([0, 20, 40])
    near = torch.ops.pyg.radius(x, y, ends, ends, 0.4, 32, 1, True)
    assert torch.equal(near, torch_cluster.radius(x, y, 0.4, batch_x, batch_y, 32, 1, None, True))
    assert torch.ops.pyg.nearest(x, y, None, None).shape == (40,)
    assert torch.ops.pyg.grid_cluster(x, torch.full((3,), 0.5), None, None).max() < 27
    return torch.ops.pyg.knn(x, y, ends, ends, k, False, 1)
""",
    },
}
PROGRAM = """
import sys, torch
from farpoint_ops.compat import torch_cluster
sys.modules["torch_cluster"] = torch_cluster
import torch_geometric
from torch_geometric import nn
nn.torch_cluster = torch_cluster
x, batch = torch.rand(40, 3), torch.arange(2).repeat_interleave(20)
rows = nn.fps(x, batch, 0.25, random_start=False)
assert torch.equal(rows, torch_cluster.fps(x, batch, 0.25, False)), rows
assert torch.equal(nn.knn(x, x, 3, batch, batch), torch_cluster.knn(x, x, 3, batch, batch))
try:
    torch_cluster.graclus_cluster(rows, rows)
except NotImplementedError as error:
    assert "graclus_cluster: needs torch-cluster or pyg-lib" in str(error), error
"""
MODEL = """
from torch_geometric.nn import DynamicEdgeConv, knn_graph, radius_graph, voxel_grid
convolution = DynamicEdgeConv(torch.nn.Linear(6, 8), k=3)
assert convolution(x, batch).shape == (40, 8)
edges = knn_graph(x, 3, batch)
assert torch.equal(edges, torch_cluster.knn_graph(x, 3, batch))
assert torch.equal(radius_graph(x, 0.4, batch), torch_cluster.radius_graph(x, 0.4, batch))
assert voxel_grid(x, size=0.5, batch=batch).shape == (40,)
"""


def run(program: str, *paths: Path) -> None:
    """In a child, so that what it imports stays there."""

    def child() -> None:
        torch.set_num_threads(1)  # a forked process has no other thread of torch
        sys.path[:0] = map(str, paths)
        exec(program, {})

    process = get_context("fork").Process(target=child)
    process.start()
    process.join()
    assert process.exitcode == 0


@pytest.mark.parametrize("release", IMPORTS)
def test_a_release_that_imports_like_this_uses_the_drop_in(tmp_path: Path, release: str) -> None:
    package = tmp_path / "torch_geometric"
    package.mkdir()
    modules = IMPORTS[release]
    package.joinpath("__init__.py").write_text(
        "".join(f"import torch_geometric.{name}\n" for name in modules)
    )
    for name, text in modules.items():
        package.joinpath(f"{name}.py").write_text(text)
    run(PROGRAM, tmp_path)


@pytest.mark.skipif(
    importlib.util.find_spec("torch_geometric") is None, reason="torch_geometric is not installed"
)
def test_pytorch_geometric_uses_the_drop_in() -> None:
    run(PROGRAM + MODEL)
