"""Public GPU samplers beside ours: which trees they get, and checkouts that do not compile.

Their kernels run on a GPU alone, where `make gpu-check` measures them.
"""

import pytest
import torch
from benchmarks.cuda import peers


def heights(own, most):
    """A bucket sampler that answers with the height of its tree."""
    return peers._at_heights("peer", lambda *arguments: arguments[-1], own=own, most=most)


@pytest.mark.parametrize(("points", "height"), [(20, 1), (1024, 5), (16384, 9), (26912, 9)])
def test_fine_trees_have_buckets_of_some_32_points(points, height):
    samplers = heights(own=4, most=12)
    cloud = torch.empty(1, points, 3)
    assert samplers["peer"](cloud, 8) == 4
    assert samplers["peer_fine"](cloud, 8) == height


def test_fine_trees_are_no_higher_than_a_peer_takes():
    samplers = heights(own=4, most=8)
    assert samplers["peer_fine"](torch.empty(1, 1 << 20, 3), 8) == 8


def test_peers_that_do_not_compile_are_left_out(tmp_path, monkeypatch, capsys):
    def broken(root):
        raise RuntimeError(f"no compiler for {root.name}")

    for name in ("broken", "sound"):
        (tmp_path / name).mkdir()
    sampler = {"sound": print}
    makers = {"broken": broken, "sound": lambda _: sampler, "absent": broken}
    monkeypatch.setattr(peers, "PEERS", tmp_path)
    monkeypatch.setattr(peers, "MAKERS", makers)
    assert peers.samplers() == sampler
    assert capsys.readouterr().out == "broken: left out, no compiler for broken\n"
