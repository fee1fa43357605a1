"""A Ray cluster of two nodes on this machine, each with its own processes and gRPC proxy."""

import os
import signal
import socket
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from farpoint_server.config.settings import Settings
from farpoint_server.ray_serve.application import replica_settings
from farpoint_server.ray_serve.replica import Replica

if "FARPOINT_RAY_TESTS" not in os.environ:
    pytest.skip("these take minutes: make ray-test", allow_module_level=True)
ray = pytest.importorskip("ray", reason="needs the extras ray: make ray-test")
serve = pytest.importorskip("ray.serve")
Cluster = pytest.importorskip("ray.cluster_utils").Cluster

PATIENCE_S = 180.0
STORE_BYTES = 150 << 20
REPLICA, WORKER = "ray::ServeReplica", "ray::MapWorker"


class TwoNodes:
    """The head, and a node that can be killed; this process is connected as a driver."""

    def __init__(self, cores: int) -> None:
        os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, sys.path))
        self._free = _free_ports()
        self.port, http, self.other_port, other_http = (next(self._free) for _ in range(4))
        self._http_port = http
        node = {"num_cpus": cores, "object_store_memory": STORE_BYTES}
        self._cluster = Cluster(
            initialize_head=True, head_node_args={**node, "include_dashboard": False}
        )
        ports = {
            "RAY_SERVE_WORKER_PROXY_GRPC_PORT": str(self.other_port),
            "RAY_SERVE_WORKER_PROXY_HTTP_PORT": str(other_http),
        }
        self._other = self._cluster.add_node(**node, env_vars=ports)
        self.address = self._cluster.address
        ray.init(self.address, log_to_driver=False)

    @property
    def target(self) -> str:
        """Both proxies, for a client."""
        return f"ipv4:127.0.0.1:{self.port},127.0.0.1:{self.other_port}"

    def deploy(self, settings: Mapping[str, Any] = {}, **options: Any) -> None:
        """Deploys the application as its users do, with one core for each replica."""
        functions = ["farpoint_server.ray_serve.application.add_to_server"]
        serve.start(
            proxy_location="EveryNode",
            http_options={"host": "127.0.0.1", "port": self._http_port},
            grpc_options={"port": self.port, "grpc_servicer_functions": functions},
        )
        chosen = Settings(device=("cpu",), cpu_threads=1, **{"encoder": (), **settings})
        options.setdefault("graceful_shutdown_timeout_s", 30)
        replicas = serve.deployment(Replica).options(ray_actor_options={"num_cpus": 1}, **options)
        serve.run(
            replicas.bind(replica_settings(chosen)), name="farpoint", route_prefix="/farpoint"
        )

    def running_replicas(self) -> int:
        """As Ray Serve sees them."""
        deployed = serve.status().applications["farpoint"].deployments["Replica"]
        return deployed.replica_states.get("RUNNING", 0)

    def processes(self, name: str) -> list[int]:
        """Process ids of the workers whose title begins so."""
        return [pid for pid in _descendants(os.getpid()) if _title(pid).startswith(name)]

    def kill_node(self) -> None:
        """Kills every process of the node that is not the head."""
        self._cluster.remove_node(self._other, allow_graceful=False)

    def close(self) -> None:
        """Ends all of it."""
        with ExitStack() as stack:
            stack.callback(self._cluster.shutdown)
            stack.callback(ray.shutdown)
            stack.callback(serve.shutdown)


def kill(pid: int) -> None:
    """As an OOM killer does."""
    os.kill(pid, signal.SIGKILL)


def wait_until(is_so: Callable[[], Any]) -> Any:
    """The first true value; an AssertionError after a long time."""
    give_up = time.monotonic() + PATIENCE_S
    while not (found := is_so()):
        assert time.monotonic() < give_up, is_so
        time.sleep(0.1)
    return found


def _free_ports() -> Iterator[int]:
    while True:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        yield port


def _descendants(pid: int) -> Iterator[int]:
    for task in Path(f"/proc/{pid}/task").glob("*/children"):
        try:
            children = [int(child) for child in task.read_text().split()]
        except OSError:  # gone
            continue
        for child in children:
            yield child
            yield from _descendants(child)


def _title(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")[0].decode(errors="replace")
    except OSError:
        return ""
