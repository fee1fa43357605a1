"""Requests to programs and encoders: what shares a call, what each gets, memory and the queue."""

from collections.abc import Sequence

import numpy as np
import pytest
import torch
from tests.support.fake_device import FakeDevice
from torch import Tensor

from farpoint_models import DensityEncoder, EncoderConfig
from farpoint_models.programs import Batching, Manifest, Role, TensorSpec
from farpoint_server.engine.engine import Engine
from farpoint_server.engine.transfer.pipeline import Pipeline
from farpoint_server.engine.types import ModelInput
from farpoint_server.errors import InvalidRequestError, OverloadedError
from farpoint_server.memory.gate import Gate
from farpoint_server.models.batching import CALL_ROWS, arguments, calls, groups, split
from farpoint_server.models.forward import EncodeWork, run_encoder
from farpoint_server.models.program import LoadedProgram, ProgramBatch, ProgramWork

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


def request(*lengths: int) -> ModelInput:
    points = np.random.default_rng(sum(lengths)).random((sum(lengths), 3), np.float32)
    return ModelInput(np.array(lengths), {"xyz": points}, {})


def check(requests: Sequence[ModelInput], answers) -> None:
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
    [(EQUAL, Runs(), [5, 14, 9, 60]), (PADDED, Runs(), [4 * 9, 60]), (RAGGED, ragged_sums, None)],
)
def test_each_request_gets_what_is_its_own_of_shared_calls(manifest, runs, shared):
    requests = [request(7, 9), request(60), request(5, 7)]
    batch = ProgramBatch(program(manifest, runs), requests)
    check(requests, batch.run(CPU, None))
    if shared is not None:
        assert runs.sizes == shared


def test_samples_beyond_the_count_of_their_cloud_are_in_no_answer():
    def halves(inputs: Sequence[Tensor]) -> list[Tensor]:
        xyz, lengths = inputs
        return [torch.arange(xyz.size(1)).int().expand(len(xyz), -1), (lengths + 1) // 2]

    picks = TensorSpec("picks", Role.PER_SAMPLE, "int32", ("B", "M"), counts="kept")
    kept = TensorSpec("kept", Role.COUNTS, "int64", ("B",))
    manifest = Manifest(Batching.PADDED, (XYZ, LENGTHS), (picks, kept))
    batch = ProgramBatch(program(manifest, halves), [request(7, 9), request(5)])
    first, second = (answer["picks"] for answer in batch.run(CPU, None))
    assert first.values.tolist() == [0, 1, 2, 3, 0, 1, 2, 3, 4]
    assert (first.lengths.tolist(), second.values.tolist()) == ([4, 5], [0, 1, 2])


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
    with pytest.raises(InvalidRequestError, match=r"its error: m: expected .* got 8$"):
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


def test_programs_share_no_batch():
    keys = {ProgramWork(program(EQUAL, name=name), request(8)).batch_key for name in "ab"}
    assert len(keys - {None}) == 2


RANDOM = np.random.default_rng(5)


@pytest.fixture(scope="module")
def encoder() -> DensityEncoder:
    torch.manual_seed(0)
    config = EncoderConfig(
        rates=(0.3, 0.5), channels=4, hidden=4, neighbors=4, groups=2, attributes=1
    )
    return DensityEncoder(config).eval()


def clouds(*lengths: int) -> ModelInput:
    total = sum(lengths)
    points, attributes = (RANDOM.random((total, width), np.float32) for width in (3, 1))
    return ModelInput(np.array(lengths), {"points": points, "attributes": attributes})


def run(work: EncodeWork):
    return work.run(CPU, None)


@pytest.mark.parametrize(
    "lengths", [[5], [7, 7, 7], [1, 1000, 3, 2], [CALL_ROWS, CALL_ROWS], [90, 100] * 1000]
)
def test_groups_hold_every_cloud_once_and_little_padding(lengths):
    lengths = np.array(lengths)
    found = list(groups(lengths))
    assert sorted(np.concatenate(found)) == list(range(len(lengths)))
    for group in found:
        rows = len(group) * lengths[group].max()
        assert rows <= 2 * lengths[group].sum()
        assert len(group) == 1 or rows <= CALL_ROWS


def test_clouds_come_back_in_the_order_of_the_request(encoder):
    together = clouds(40, 5, 33, 90, 1)
    whole = run_encoder(encoder, together)
    ends = together.lengths.cumsum()
    for cloud, (begin, end) in enumerate(zip(ends - together.lengths, ends, strict=True)):
        rows = {name: array[begin:end] for name, array in together.rows.items()}
        alone = ModelInput(np.array([end - begin]), rows)
        for got, expected in zip(whole, run_encoder(encoder, alone), strict=True):
            stop = got.lengths.cumsum()[cloud]
            part = slice(stop - got.lengths[cloud], stop)
            np.testing.assert_array_equal(got.indices[part], expected.indices)
            np.testing.assert_array_equal(got.counts[part], expected.counts)
            np.testing.assert_allclose(got.features[part], expected.features, atol=1e-5)


def test_a_device_is_given_the_same_and_answers_the_same(encoder):
    gate, device = Gate(), FakeDevice(stand_in=torch.ones_like)
    pipeline = Pipeline(device, gate.hold_shared)
    for lengths in ((40, 33), (21, 21)):
        request = clouds(*lengths)
        with gate.reading():
            on_device = run_encoder(encoder, request, pipeline)
        for got, expected in zip(on_device, run_encoder(encoder, request), strict=True):
            for name, value in expected._asdict().items():
                np.testing.assert_array_equal(getattr(got, name), value, err_msg=name)
    pipeline.wait(0)
    assert not device.races
    pipeline.stop()


def test_a_request_that_was_halved_is_answered_like_a_whole_one(encoder):
    work = EncodeWork({CPU: encoder}, clouds(20, 21, 22))
    left, right = work.halve()
    (joined,) = (left.join(a, b) for a, b in zip(run(left), run(right), strict=True))
    for got, expected in zip(joined, run_encoder(encoder, work.clouds), strict=True):
        assert got.lengths.tolist() == expected.lengths.tolist()
        np.testing.assert_array_equal(got.indices, expected.indices)
        np.testing.assert_allclose(got.features, expected.features, atol=1e-5)
    assert EncodeWork({CPU: encoder}, clouds(9)).halve() is None


def test_a_request_that_was_cancelled_is_not_begun(encoder):
    work = EncodeWork({CPU: encoder}, clouds(20, 21))
    left, _ = work.halve()
    work.cancel(0)
    assert run(left) == [[]]
