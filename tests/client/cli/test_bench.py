"""`farpoint bench`: its requests, their times, and its report."""

import asyncio
import json
import math

import grpc
import numpy as np
import pytest
from tests.support.command import run_farpoint

from farpoint._tensors import Checksums
from farpoint.cli.bench import Arrivals, Kind, Measured, Step, make_requests, offer, rise, sustained
from farpoint.v1 import sampling_pb2 as pb


def run(*arguments: str):
    return run_farpoint("bench", *arguments)


def step(rate: float, latency_ms: float, late_ms: float = 0.0) -> Step:
    return Step(rate, Measured([latency_ms] * 100, [late_ms] * 100, 1.0), target_ms=50.0)


@pytest.mark.parametrize(
    ("flag", "value"), [("--seconds", "inf"), ("--rate", "-1"), ("--percentile", "0")]
)
def test_a_number_out_of_its_range_is_named(flag, value):
    answer = run(flag, value)
    assert answer.exit_code == 2
    assert answer.stderr.startswith(f"farpoint: {flag} must be")
    assert answer.stderr.endswith(f"got {value}\n")


@pytest.mark.parametrize("text", ["10", "10:20", "10:0", "10:5:0", "a:b", "10:5:"])
def test_an_invalid_size_is_named(text):
    answer = run("--size", text)
    assert answer.exit_code == 2
    assert f"'{text}'" in answer.stderr
    assert "POINTS:SAMPLES" in answer.stderr


def test_points_may_come_from_a_file(tmp_path):
    scan = np.arange(30, dtype=np.float32).reshape(10, 3)
    np.save(tmp_path / "scan.npy", scan)
    for points in (6, 25):  # some of its points, and more than it has
        (request,) = make_requests([Kind(points, 2)], tmp_path / "scan.npy", Checksums.OFF, seed=0)
        sent = np.frombuffer(pb.SampleRequest.FromString(request).points.data, np.float32)
        assert len(sent) == 3 * points
        assert set(map(tuple, sent.reshape(-1, 3))) <= set(map(tuple, scan))


def test_arrivals_are_as_many_and_as_mixed_as_asked():
    arrivals = Arrivals.poisson(1000, 20, [3, 1], seed=1)
    assert len(arrivals.due_s) == pytest.approx(20_000, rel=0.05)
    assert (np.diff(arrivals.due_s) >= 0).all()
    assert np.mean(arrivals.kinds) == pytest.approx(0.25, abs=0.02)
    gaps = np.diff(arrivals.due_s)
    assert gaps.std() / gaps.mean() == pytest.approx(1, abs=0.05)  # of independent callers


async def test_calls_begin_when_they_are_due_also_without_answers():
    """A server that stops for a while is asked all the same, and every call that waited counts."""
    begun, go_on = [], asyncio.Event()

    async def call(request: bytes) -> bytes:
        begun.append(request)
        if len(begun) == 20:
            go_on.set()
        await go_on.wait()
        return b""

    due = np.linspace(0, 0.2, 20)
    found = await offer(call, [b"x"], Arrivals(due, np.zeros(20, np.int64)))
    assert len(begun) == 20
    # The first waited for the last to be sent, and those between for what was left of it.
    waited = sorted(found.latency_ms, reverse=True)
    expected = (due[-1] - due) * 1e3
    assert all(w >= e - 1 for w, e in zip(waited, expected, strict=True))


async def test_a_failed_call_misses_the_target():
    async def call(request: bytes) -> bytes:
        if request == b"bad":
            raise grpc.aio.AioRpcError(grpc.StatusCode.RESOURCE_EXHAUSTED, None, None)
        return b""

    kinds = np.array([0] * 97 + [1] * 3)
    found = await offer(call, [b"good", b"bad"], Arrivals(np.zeros(100), kinds))
    assert found.errors == ["RESOURCE_EXHAUSTED"] * 3
    assert math.isinf(found.percentile_ms(99))
    assert math.isfinite(found.percentile_ms(97))


@pytest.mark.parametrize("most", [137.0, 7.0])
def test_rates_rise_until_the_target_is_missed_and_close_in(most):
    """Also below the first rate."""
    steps = list(rise(lambda rate: step(rate, 10 if rate <= most else 500)))
    best = sustained(steps)
    assert best is not None
    assert 0.85 * most <= best <= most
    assert len(steps) < 15


def test_a_generator_that_is_late_ends_the_search():
    steps = list(rise(lambda rate: step(rate, 4 * rate, late_ms=2 * rate)))
    assert [found.is_kept for found in steps] == [True, False]


def test_nothing_is_sustained_above_a_rate_that_missed():
    steps = [step(10, 1), step(20, 99), step(30, 1)]
    assert sustained(steps) == 10
    assert sustained(steps[1:]) is None


def test_a_server_is_measured_from_the_shell(server):
    arguments = [
        "--size",
        "500:4",
        "--size",
        "70:7:0.5",
        "--rate",
        "40",
        "--rate",
        "80",
        "--seconds",
        "0.5",
    ]
    flags = ["--target-ms", "9999", "--json", "--processes", "2"]
    answer = run("--server", server.target, *arguments, *flags)
    assert answer.exit_code == 0, answer.output
    report = json.loads(answer.stdout)
    assert report["server"] == server.target
    assert [tuple(kind.values()) for kind in report["kinds"]] == [(500, 4, 1.0), (70, 7, 0.5)]
    assert [found["offered_per_s"] for found in report["steps"]] == [40, 80]
    assert report["sustained_per_s"] == 80
    assert 0 < report["steps"][0]["p50_ms"] <= report["steps"][0]["p99_ms"]
    sent = {(request.points.shape[0], *request.sample_counts) for request in server.requests}
    assert sent == {(500, 4), (70, 7)}
    answer = run("--server", server.target, *arguments[:6], *flags[:2])
    assert answer.exit_code == 0, answer.output
    assert "sustains 40.0 calls a second at p99 <= 9999 ms" in answer.stdout


def test_a_server_that_refuses_ends_it_in_one_line(server):
    server.fail(grpc.StatusCode.NOT_FOUND, "no such thing")
    answer = run("--server", server.target, "--rate", "5", "--seconds", "0.2")
    assert answer.exit_code == 1
    assert answer.stderr.strip().endswith("farpoint: no such thing")
