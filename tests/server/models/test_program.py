"""Requests to programs: what shares a call, what each gets, and how memory and the queue see it."""

from collections.abc import Sequence

import numpy as np
import pytest
import torch
from tests.support.scheduling import job
from torch import Tensor

from farpoint_models.programs import Batching, Manifest, Role, TensorSpec
from farpoint_server.engine.engine import Engine
from farpoint_server.engine.types import ProgramInput
from farpoint_server.errors import InvalidRequestError, OverloadedError
from farpoint_server.models.batching import CALL_ROWS, arguments, calls, split
from farpoint_server.models.program import LoadedProgram, ProgramBatch, ProgramWork
from farpoint_server.scheduling.queue import JobQueue

CPU = torch.device("cpu")
XYZ = TensorSpec("xyz", Role.POINTS, "float32", ("B", "N", 3))
ENDS = TensorSpec("ends", Role.OFFSETS, "int32", ("B",))
FLAT = TensorSpec("xyz", Role.POINTS, "float32", (3, "P"))
SUMS = TensorSpec("sums", Role.PER_CLOUD, "float32", ("B", 3))
ROWS = TensorSpec("rows", Role.PER_POINT, "float32", ("B", 3, "N"))
LENGTHS = TensorSpec("lengths", Role.LENGTHS, "int64", ("B",))
EQUAL = Manifest(Batching.EQUAL, (XYZ,), (SUMS, ROWS))
PADDED = Manifest(Batching.PADDED, (XYZ, LENGTHS), (SUMS, ROWS))
RAGGED = Manifest(Batching.RAGGED, (FLAT, ENDS), (SUMS,))
ALONE = Manifest(Batching.ALONE, (XYZ,), (SUMS, ROWS))


class Runs:
    """Sums of each cloud and its rows; remembers the sizes of its calls."""

    def __init__(self, most_rows: int = CALL_ROWS) -> None:
        self.most_rows = most_rows
        self.sizes: list[int] = []

    def __call__(self, inputs: Sequence[Tensor]) -> list[Tensor]:
        xyz = inputs[0]
        self.sizes.append(xyz.numel() // 3)
        if xyz.numel() // 3 > self.most_rows:
            raise MemoryError
        return [xyz.sum(1), xyz.mT]


def ragged_sums(inputs: Sequence[Tensor]) -> list[Tensor]:
    xyz, ends = inputs
    parts = xyz.tensor_split(ends[:-1].long(), dim=1)
    return [torch.stack([part.sum(1) for part in parts])]


def program(manifest: Manifest, runs=None, name: str = "mine") -> LoadedProgram:
    return LoadedProgram(name, manifest, {CPU: runs or Runs()}, 0, 1.0)


def request(*lengths: int) -> ProgramInput:
    points = np.random.default_rng(sum(lengths)).random((sum(lengths), 3), np.float32)
    return ProgramInput(np.array(lengths), {"xyz": points}, {})


def check(requests: Sequence[ProgramInput], answers) -> None:
    """Every request got the sums of its own clouds, and its own rows."""
    for asked, answer in zip(requests, answers, strict=True):
        clouds = np.split(asked.rows["xyz"], np.cumsum(asked.lengths)[:-1])
        expected = [cloud.sum(0) for cloud in clouds]
        np.testing.assert_allclose(answer["sums"].values, expected, rtol=1e-4)
        if "rows" in answer:
            np.testing.assert_array_equal(answer["rows"].values, asked.rows["xyz"])
            np.testing.assert_array_equal(answer["rows"].lengths, asked.lengths)


@pytest.mark.parametrize(
    ("manifest", "runs", "shared"),
    [
        (EQUAL, Runs(), [5, 14, 9, 60]),
        (PADDED, Runs(), [4 * 9, 60]),
        (RAGGED, ragged_sums, None),
    ],
)
def test_each_request_gets_what_is_its_own_of_shared_calls(manifest, runs, shared):
    requests = [request(7, 9), request(60), request(5, 7)]
    batch = ProgramBatch(program(manifest, runs), requests)
    check(requests, batch.run(CPU, None))
    if shared is not None:
        assert runs.sizes == shared


def test_what_is_alone_is_one_call_as_it_was_sent():
    runs = Runs()
    work = ProgramWork(program(ALONE, runs), request(6, 6))
    assert work.batch_key is None
    check([work.request], work.batch([work]).run(CPU, None))
    assert runs.sizes == [12]
    assert work.batch([work]).halve() is None


def test_a_call_has_no_more_clouds_and_rows_than_the_program_takes():
    few = Manifest(Batching.EQUAL, (XYZ,), (SUMS, ROWS), {"B": (1, 2)})
    assert [len(c) for c in calls(np.full(5, 8), few)] == [2, 2, 1]
    assert [len(c) for c in calls(np.full(5, CALL_ROWS // 2), EQUAL)] == [2, 2, 1]
    short = Manifest(Batching.RAGGED, RAGGED.inputs, RAGGED.outputs, {"P": (1, 20)})
    assert [len(c) for c in calls(np.array([9, 9, 3, 16]), short)] == [2, 2]


def test_offsets_begin_with_zero_or_are_the_ends_alone():
    clouds = split(request(4, 2))
    ends = arguments(RAGGED, clouds)[1]
    assert (ends.tolist(), ends.dtype) == ([4, 6], np.int32)
    both = Manifest(
        Batching.RAGGED,
        (FLAT, TensorSpec("offsets", Role.OFFSETS, "int64", ("B+1",))),
        RAGGED.outputs,
    )
    assert arguments(both, clouds)[1].tolist() == [0, 4, 6]


def test_a_refusal_of_the_program_is_the_callers():
    def refuse(_):
        raise RuntimeError("m: expected 1 <= m <= N = 5, got 8\nC++ frames")

    batch = ProgramBatch(program(EQUAL, refuse), [request(5)])
    with pytest.raises(InvalidRequestError, match=r"refusal: m: expected .* got 8$"):
        batch.run(CPU, None)


@pytest.mark.parametrize(
    ("outputs", "reason"),
    [
        ([torch.zeros(1, 3)], "1 outputs of 2"),
        ([torch.zeros(1, 4), torch.zeros(1, 3, 5)], r"sums: the manifest says .*\['B', 3\]"),
        ([torch.zeros(2, 3), torch.zeros(1, 3, 5)], "sums: the manifest asks for 1, .* gave 2"),
        ([torch.zeros(1, 3), torch.zeros(1, 3, 4)], "rows: the manifest asks for 5, .* gave 4"),
        ([torch.zeros(1, 3).int(), torch.zeros(1, 3, 5)], "the program gave int32"),
    ],
)
def test_a_program_that_breaks_its_manifest_is_a_bug_and_not_the_callers(outputs, reason):
    batch = ProgramBatch(program(EQUAL, lambda _: outputs), [request(5)])
    with pytest.raises(ValueError, match=reason):
        batch.run(CPU, None)


@pytest.fixture
async def engine():
    engine = Engine(CPU, 1)
    yield engine
    engine.stop()


async def test_out_of_memory_cuts_a_batch_and_then_its_requests(engine):
    runs = Runs(most_rows=25)
    requests = [request(20, 20, 20), request(20), request(26)]
    *answers, refused = await engine.run(ProgramBatch(program(EQUAL, runs), requests))
    check(requests[:2], answers)
    assert isinstance(refused, OverloadedError)
    assert max(size for size in runs.sizes if size <= 25) == 20


async def test_programs_share_no_batch_and_callers_the_same_predicted_time():
    """Two programs and Sample, from a caller each: turns go by what each is predicted to take."""
    queue = JobQueue(10_000)
    one, other = program(EQUAL, name="one"), program(EQUAL, name="other")
    for index in range(60):
        for caller, loaded, cost_ms in (("a", one, 4), ("b", other, 8), ("c", None, 2)):
            queued = job(caller, cost_ms)
            if loaded is not None:
                queued.work = ProgramWork(loaded, request(8))
            queued.accepted = float(index)
            queue.add(queued)
    spent = dict.fromkeys("abc", 0)
    while sum(spent.values()) < 300e6:
        batch = queue.take_batch()
        assert len({j.work.batch_key for j in batch}) == 1
        for taken in batch:
            spent[taken.caller] += taken.cost_ns
    assert max(spent.values()) - min(spent.values()) <= 20e6
