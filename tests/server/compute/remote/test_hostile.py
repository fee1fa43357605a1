"""Front ends that send what this program does not: refused alone, and nothing is read beyond."""

import asyncio
import json
import os
import random

import numpy as np
import pytest
from tests.support.compute.remote import EngineOf, RawFrontEnd, front_end, local_compute
from tests.support.compute.scheduling import until
from tests.support.messages import FUZZ_INPUTS

from farpoint_server.compute.arrays import Shared
from farpoint_server.compute.remote import channel
from farpoint_server.compute.remote.channel import HEAD, MAX_BYTES
from farpoint_server.compute.remote.region import DamagedError, arrange, read, specs_of, write
from farpoint_server.kinds import wire
from farpoint_server.kinds.method import MethodClouds, MethodWork, RandomRows, VoxelGrid
from farpoint_server.kinds.sample import Clouds, SampleWork

POINTS = np.random.default_rng(6).normal(size=(60, 3)).astype(np.float32)
LENGTHS, COUNTS, STARTS = np.array([20, 40]), np.array([3, 40]), np.array([19, 0])
WORK = SampleWork(Clouds(POINTS, LENGTHS, COUNTS, STARTS))
GRID = MethodWork(MethodClouds(POINTS, LENGTHS, LENGTHS, VoxelGrid(0.5, "first", (0, 0, 0))))
ROWS = MethodWork(MethodClouds(POINTS, LENGTHS, COUNTS, RandomRows((1, 2))))


def record(kind: int, payload: bytes = b"", number: int = 1) -> bytes:
    return HEAD.pack(len(payload), number, kind) + payload


def run_of(front_end: RawFrontEnd, work=WORK, **changes) -> bytes:
    """A call with a work, of which some fields are others."""
    parameters, arrays = wire.pack_work(work)
    block = front_end.region.take(8192)
    write(front_end.region.bytes_of(block), arrays, arrange(arrays))
    call = {
        "timeout_s": None,
        "caller": "",
        "offset": block[0],
        "size": block[1],
        "parameters": parameters,
        "specs": specs_of(arrays),
    }
    return json.dumps([*(call | changes).values()]).encode()


@pytest.fixture
async def engine(tmp_path):
    """An engine with a CPU, and a front end that must not notice the others."""
    compute = await local_compute()
    engine = EngineOf(tmp_path / "engine", compute)
    async with front_end(engine.path) as well:
        yield engine
        assert len((await well.run(WORK, None)).result.rows) == 43
    engine.server.stop()
    await compute.stop()


async def test_a_call_of_a_raw_front_end_is_answered(engine):
    hostile = RawFrontEnd(engine.path)
    await hostile.send(record(channel.RUN, run_of(hostile)))
    loop, answer = asyncio.get_running_loop(), b""
    while b'"<i4", 43' not in answer:
        answer += await loop.sock_recv(hostile.socket, 1 << 16)
    hostile.socket.close()


@pytest.mark.parametrize(
    "changes",
    [
        {"offset": -64},
        {"offset": 1 << 20},
        {"offset": (1 << 20) - 64},
        {"size": 1 << 70},
        {"size": -1},
        {"size": "8192"},
        {"offset": None},
        {"timeout_s": "soon"},
        {"parameters": ["code", "import os"]},
        {"parameters": []},
        {"parameters": {"sample": 1}},
        {"parameters": ["sample", 1, None]},
        {"parameters": ["sample", False, "wide"]},
        {"parameters": ["sample", False, float("nan")]},
        {"parameters": ["sample", False]},
        {"parameters": ["model", 3, ["points"], []]},
        {"parameters": ["model", [], ["points"], []]},
        {"specs": []},
        {"specs": [["<f4", 60, 3]]},
        {"specs": [["<f4", 60, 3], ["<i8", 2, 2]]},
        {"specs": [["<f4", 60, 3], ["<i4", 3, 2]]},
        {"specs": [["<f8", 60, 3], ["<i8", 3, 2]]},
        {"specs": [["<f4", 180], ["<i8", 3, 2]]},
        {"specs": [["<f4", 59, 3], ["<i8", 3, 2]]},
        {"specs": [["<f4", 60, 3], ["<i8", 3, 0]]},
        {"specs": [["<f4", 6000, 3], ["<i8", 3, 2]]},
        {"specs": 7},
    ],
)
async def test_a_call_beyond_its_memory_or_of_another_form_ends_the_connection(engine, changes):
    hostile = RawFrontEnd(engine.path)
    payload = run_of(hostile, **changes)
    await hostile.send(record(channel.RUN, payload))
    assert b"43" not in await hostile.end()


@pytest.mark.parametrize("few", [True, False])
@pytest.mark.parametrize(
    ("work", "row", "value"),
    [
        *((WORK, 0, value) for value in (0, -1, 19, 21, 1 << 31, 1 << 62, -(1 << 63))),
        *((WORK, 1, value) for value in (0, -1, 41, 1 << 40)),
        *((WORK, 2, value) for value in (-1, 40, 1 << 33)),
        *((GRID, 1, value) for value in (0, 41)),
        *((ROWS, 0, value) for value in (41, -5)),
    ],
)
def test_lengths_counts_and_starts_outside_of_a_cloud_are_refused(
    monkeypatch, work, row, value, few
):
    """By both ways to check them."""
    monkeypatch.setattr(wire, "FEW", 16 if few else 0)
    parameters, (points, table) = wire.pack_work(work)
    assert wire.unpack_work(parameters, [points, table], lambda _: None).point_count == 60
    table[row, 1] = value
    with pytest.raises(DamagedError):
        wire.unpack_work(parameters, [points, table], lambda _: None)


@pytest.mark.parametrize(
    "data",
    [
        record(0),
        record(9),
        record(channel.ANSWER),
        record(channel.ERROR, b"[]"),
        record(channel.ASK, b"nothing\n"),
        record(channel.ASK, b"\xff\xfe\n"),
        record(channel.RUN, b"{"),
        record(channel.RUN, b"[" * 100_000),
        record(channel.RUN, b"null"),
        record(channel.NOTE, b"one"),
        HEAD.pack(MAX_BYTES + 1, 1, channel.ASK),
    ],
)
async def test_records_that_mean_nothing_end_the_connection(engine, data):
    hostile = RawFrontEnd(engine.path)
    await hostile.send(data)
    await hostile.end()


async def test_a_number_in_use_ends_the_connection(engine):
    hostile = RawFrontEnd(engine.path)
    payload = run_of(hostile)
    await hostile.send(record(channel.RUN, payload) * 2)
    await hostile.end()


async def test_memory_that_could_shrink_is_refused(engine, tmp_path):
    """Otherwise the next read would end the engine."""
    with (tmp_path / "memory").open("wb+") as file:
        file.truncate(1 << 20)
        assert await RawFrontEnd(engine.path, [file.fileno()]).end() == b""
    assert await RawFrontEnd(engine.path, []).end() == b""


async def test_damaged_records_end_their_own_connection_alone(engine):
    """Bytes of valid records are changed, removed or added at random."""
    choices, tried = random.Random(8), 0
    while tried < FUZZ_INPUTS // 20:
        hostile = RawFrontEnd(engine.path)
        records = [
            record(channel.RUN, run_of(hostile, work), number)
            for number, work in enumerate((WORK, GRID, ROWS, WORK))
        ]
        records.append(record(channel.CANCEL, number=3))
        data = bytearray(b"".join(records))
        for _ in range(choices.randrange(1, 6)):
            at = choices.randrange(len(data))
            data[at : at + choices.randrange(3)] = os.urandom(choices.randrange(3))
        await hostile.send(bytes(data))
        tried += len(records)
        await asyncio.sleep(0)
        hostile.socket.close()
    await until(lambda: len(engine.server._front_ends) == 1)


def test_parameters_and_specs_of_any_value_are_a_work_or_are_refused():
    """The parser of calls, by itself, on as many inputs as the others."""
    choices, block = random.Random(9), np.zeros(8192, np.uint8)
    values = [None, True, -1, 0, 1, 2, 1 << 64, 0.5, float("nan"), "sample", "<i8", "", [], {}, [1]]
    works = [WORK, GRID, ROWS]
    made = 0

    def changed(value):
        if choices.random() < 0.08:
            return choices.choice(values)
        return [changed(each) for each in value] if isinstance(value, list | tuple) else value

    for _ in range(FUZZ_INPUTS):
        parameters, arrays = wire.pack_work(choices.choice(works))
        write(block, arrays, arrange(arrays))
        try:
            found = read(block, changed(specs_of(arrays)), Shared)
            work = wire.unpack_work(changed(parameters), found, lambda _: None)
        except (DamagedError, TypeError, ValueError):
            continue
        made += 1
        assert work.point_count == 60
    assert FUZZ_INPUTS // 20 < made < FUZZ_INPUTS - FUZZ_INPUTS // 20
