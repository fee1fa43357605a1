"""Several engines on one CPU: they share its memory, and the metrics have each series once."""

import urllib.request
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import torch

import farpoint
from farpoint_ops import furthest_point_sample

CLOUDS = np.random.default_rng(5).normal(size=(8, 20_000, 3)).astype(np.float32)


def test_engines_of_one_device_share_its_memory(start):
    server = start(
        *("--device", "cpu,cpu", "--http-listen", "127.0.0.1:0"),
        *("--admin-listen", "127.0.0.1:0"),
    )
    ready = server.wait_for(lambda line: line["event"] == "ready")
    with farpoint.Client(server.address) as client, ThreadPoolExecutor(len(CLOUDS)) as callers:
        found = list(callers.map(lambda cloud: client.sample(cloud, 500).indices, CLOUDS))
    expected = furthest_point_sample(torch.from_numpy(CLOUDS), 500)
    assert np.array_equal(np.stack(found), expected.numpy())
    with urllib.request.urlopen(f"http://{ready['http_address']}/metrics", timeout=60) as answer:
        lines = answer.read().decode().splitlines()
    series = [line.rpartition(" ")[0] for line in lines if not line.startswith("#")]
    assert len(series) == len(set(series))
    with farpoint.Client(ready["admin_addresses"][0]) as admin:
        assert [device.device for device in admin.memory().devices] == ["cpu"]
        assert [trim.device for trim in admin.trim_memory()] == ["cpu"]
