"""Clients in other processes: pickled, forked, and in the workers of a pool."""

import pickle
import subprocess
import sys

import grpc
import numpy as np
import pytest

import farpoint

FORKED = """
import asyncio, os, sys
import numpy as np
import farpoint

target, case = sys.argv[1:]
cloud = np.random.default_rng(7).normal(size=(500, 3)).astype(np.float32)
client = farpoint.Client(target, timeout=20)
if case != "unused":
    client.sample(cloud, 3)
if case in ("closed", "async"):
    client.close()
    client = farpoint.Client(target, timeout=20)
if case == "async":
    async def use():
        async with farpoint.AsyncClient(target) as other:
            await other.sample(cloud, 3)
    asyncio.run(use())
child = os.fork()
if not child:
    try:
        print(len(client.sample(cloud, 5)), flush=True)
        client.close()
    except farpoint.FailedPreconditionError as error:
        print(error, flush=True)
    os._exit(0)
os.waitpid(child, 0)
print("parent", len(client.sample(cloud, 4)))
"""


@pytest.fixture
def run_forked(server):
    def run(case: str) -> list[str]:
        command = [sys.executable, "-c", FORKED, server.target, case]
        ended = subprocess.run(command, capture_output=True, text=True, timeout=60)
        assert ended.returncode == 0, ended.stderr
        return ended.stdout.splitlines()

    return run


@pytest.mark.parametrize("kind", [farpoint.Client, farpoint.AsyncClient])
def test_a_pickled_client_has_the_same_arguments(kind):
    tls = farpoint.Tls(server_name="a")
    client = kind(["a:1", "b:2"], timeout=7, tls=tls, load_balancing="pick_first", retry_budget=9)
    twin = pickle.loads(pickle.dumps(client))
    assert (type(twin), twin.target) == (kind, "a:1,b:2")
    assert pickle.dumps(twin) == pickle.dumps(client)


def test_a_client_is_pickled_after_use_and_connects_anew(client, cloud):
    expected = client.sample(cloud, 9)
    with pickle.loads(pickle.dumps(client)) as twin:
        assert np.array_equal(twin.sample(cloud, 9).indices, expected.indices)
    assert len(client.sample(cloud, 2)) == 2


def test_credentials_of_grpc_cannot_be_pickled():
    client = farpoint.Client(credentials=grpc.local_channel_credentials())
    with pytest.raises(TypeError, match="give tls and token instead"):
        pickle.dumps(client)


def test_a_client_that_is_not_used_yet_works_on_both_sides_of_a_fork(run_forked):
    assert run_forked("unused") == ["5", "parent 4"]


@pytest.mark.parametrize("case", ["used", "closed", "async"])
def test_a_call_after_a_fork_is_an_error_with_the_remedy(run_forked, case):
    error, parent = run_forked(case)
    assert "spawn" in error
    assert parent == "parent 4"


@pytest.mark.parametrize("used", [False, True])
def test_a_closed_client_takes_no_calls(server, cloud, used):
    client = farpoint.Client(server.target)
    if used:
        client.sample(cloud, 2)
    client.close()
    with pytest.raises(farpoint.FarpointError, match="closed"):
        client.sample(cloud, 2)
