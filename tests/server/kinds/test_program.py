"""Requests to programs and encoders: what shares a call, what each gets, memory and the queue."""

import asyncio
import gc
import weakref
from collections.abc import Sequence

import numpy as np
import pytest
import torch
from tests.support.compute.fake_device import FakeDevice
from tests.support.compute.scheduling import until
from tests.support.memory.simulation import FakeAllocator
from torch import Tensor

from farpoint_models import DensityEncoder, EncoderConfig
from farpoint_models.programs import Batching, Manifest, Role, TensorSpec
from farpoint_models.programs.calls import CALL_ROWS, arguments, calls, groups
from farpoint_server.compute.batch import Batch
from farpoint_server.compute.cpu import CpuEngine
from farpoint_server.compute.cuda import CudaEngine
from farpoint_server.compute.memory.gate import Gate
from farpoint_server.compute.memory.manager import Manager
from farpoint_server.compute.memory.policy import Thresholds
from farpoint_server.compute.transfer.queue import TransferQueue
from farpoint_server.errors import InvalidRequestError, OverloadedError
from farpoint_server.kinds.batching import ModelInput, split
from farpoint_server.kinds.encoder import as_flat, manifest_of, stages_of
from farpoint_server.kinds.model import MARGIN, LoadedModel, ModelWork

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


def program(manifest: Manifest, runs=None, name: str = "mine") -> LoadedModel:
    model = LoadedModel(name, manifest, first_calls={"cpu": (1, 1)})
    model.put(CPU, runs or Runs())
    return model


def batch_of(model: LoadedModel, *requests: ModelInput) -> Batch:
    return Batch([ModelWork(model, asked) for asked in requests])


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
    check(requests, batch_of(program(manifest, runs), *requests).run_on_cpu())
    if shared is not None:
        assert runs.sizes == shared


def test_samples_beyond_the_count_of_their_cloud_are_in_no_answer():
    def halves(inputs: Sequence[Tensor]) -> list[Tensor]:
        xyz, lengths = inputs
        return [torch.arange(xyz.size(1)).int().expand(len(xyz), -1), (lengths + 1) // 2]

    picks = TensorSpec("picks", Role.PER_SAMPLE, "int32", ("B", "M"), counts="kept")
    kept = TensorSpec("kept", Role.COUNTS, "int64", ("B",))
    manifest = Manifest(Batching.PADDED, (XYZ, LENGTHS), (picks, kept))
    batch = batch_of(program(manifest, halves), request(7, 9), request(5))
    first, second = (answer["picks"] for answer in batch.run_on_cpu())
    assert first.values.tolist() == [0, 1, 2, 3, 0, 1, 2, 3, 4]
    assert (first.lengths.tolist(), second.values.tolist()) == ([4, 5], [0, 1, 2])


def test_what_is_alone_is_one_call_as_it_was_sent():
    runs = Runs()
    work = ModelWork(program(ALONE, runs), request(6, 6))
    assert work.batch_key is None
    check([work.request], Batch([work]).run_on_cpu())
    assert runs.sizes == [12]
    assert Batch([work]).halve() is None


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

    batch = batch_of(program(EQUAL, refuse), request(5))
    with pytest.raises(InvalidRequestError, match=r"its error: m: expected .* got 8$"):
        batch.run_on_cpu()


@pytest.mark.parametrize(
    ("outputs", "reason"),
    [
        ([torch.zeros(1, 3)], "1 outputs of 2"),
        ([torch.zeros(1, 4), torch.zeros(1, 3, 5)], r"sums: the manifest says .*\['B', 3\]"),
        (
            [torch.zeros(2, 3), torch.zeros(1, 3, 5)],
            "sums: the manifest asks for 1 clouds, .* gave 2",
        ),
        (
            [torch.zeros(1, 3), torch.zeros(1, 3, 4)],
            "rows: the manifest asks for 5 rows, .* gave 4",
        ),
        ([torch.zeros(1, 3).int(), torch.zeros(1, 3, 5)], "the program gave int32"),
    ],
)
def test_a_program_that_breaks_its_manifest_is_named_with_what_it_gave(outputs, reason):
    batch = batch_of(program(EQUAL, lambda _: outputs), request(5))
    with pytest.raises(InvalidRequestError, match=f"the model mine gives .*{reason}"):
        batch.run_on_cpu()


@pytest.fixture
async def engine():
    engine = CpuEngine(1)
    yield engine
    engine.close()


async def test_out_of_memory_cuts_a_batch_and_then_its_requests(engine):
    runs = Runs(most_rows=25)
    requests = [request(20, 20, 20), request(20), request(26)]
    *answers, refused = await engine.submit(batch_of(program(EQUAL, runs), *requests))
    check(requests[:2], answers)
    assert isinstance(refused, OverloadedError)
    assert max(size for size in runs.sizes if size <= 25) == 20


@pytest.mark.parametrize(
    ("lengths", "expected"),
    [([64], 64**2), ([512], 512**2), ([100, 40], 100**2), ([64] * 3, 3 * 64**2)],
)
def test_memory_is_predicted_by_the_power_that_was_measured(lengths, expected):
    """Of a program that computes all distances in a cloud."""
    model = program(EQUAL)
    model.peaks = ((1, 4), (61, 4 * 61**2), (256, 4 * 256**2))
    assert model.call_bytes(np.array(lengths)) == pytest.approx(MARGIN * 4 * expected, rel=0.01)


def test_requests_whose_values_differ_in_size_share_no_batch():
    target = TensorSpec("target", Role.PER_CLOUD, "float32", ("B", "M", 3))
    model = program(Manifest(Batching.EQUAL, (XYZ, target), (SUMS, ROWS)))

    def key(points: int):
        values = {"target": np.zeros((1, points, 3), np.float32)}
        return ModelWork(model, ModelInput(np.array([8]), request(8).rows, values)).batch_key

    assert key(5) == key(5) != key(6)


def test_programs_share_no_batch():
    keys = {ModelWork(program(EQUAL, name=name), request(8)).batch_key for name in "ab"}
    assert len(keys - {None}) == 2


RANDOM = np.random.default_rng(5)


def test_a_model_that_nothing_refers_to_is_dropped_from_every_device():
    runs = Runs()
    model, kept = program(EQUAL, runs), weakref.ref(runs)
    work = ModelWork(model, request(5))
    del model, runs
    assert work.inline(10**9)["sums"].values.shape == (1, 3)
    del work
    gc.collect()
    assert kept() is None


@pytest.fixture(scope="module")
def encoder() -> DensityEncoder:
    torch.manual_seed(0)
    config = EncoderConfig(
        rates=(0.3, 0.5), channels=4, hidden=4, neighbors=4, groups=2, attributes=1
    )
    return DensityEncoder(config).eval()


@pytest.fixture(scope="module")
def model(encoder) -> LoadedModel:
    model = LoadedModel("tiny", manifest_of(encoder.config), config=encoder.config)
    model.put(CPU, as_flat(encoder))
    return model


def clouds(*lengths: int) -> ModelInput:
    total = sum(lengths)
    points, attributes = (RANDOM.random((total, width), np.float32) for width in (3, 1))
    return ModelInput(np.array(lengths), {"points": points, "attributes": attributes})


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


def encode(model: LoadedModel, request: ModelInput):
    return stages_of(ModelWork(model, request).inline(10**9))


def test_a_single_cloud_is_what_the_encoder_gives_to_the_bit(encoder, model):
    request = clouds(40)
    points, attributes = (torch.from_numpy(request.rows[n])[None] for n in ("points", "attributes"))
    with torch.inference_mode():
        expected = encoder(points, attributes.mT)
    for got, wanted in zip(encode(model, request), expected, strict=True):
        assert got.indices.tolist() == wanted.indices[0].tolist()
        assert got.counts.tolist() == wanted.counts[0].tolist()
        np.testing.assert_array_equal(got.features, wanted.features[0].mT)
        np.testing.assert_array_equal(got.mean_distances, wanted.mean_distance[0])


def check_same(got, expected) -> None:
    for one, other in zip(got, expected, strict=True):
        assert one.lengths.tolist() == other.lengths.tolist()
        np.testing.assert_array_equal(one.indices, other.indices)
        np.testing.assert_array_equal(one.counts, other.counts)
        np.testing.assert_allclose(one.features, other.features, atol=1e-5)


async def test_two_batches_of_a_model_overlap_on_a_device_and_are_right(model):
    device = FakeDevice()
    memory = Manager(FakeAllocator(1 << 30), Thresholds(), Gate())
    transfers = TransferQueue(device, memory.hold)
    engine = CudaEngine(CPU, 1, memory, transfers=transfers)
    device.pause("download")
    requests = [clouds(40, 33), clouds(21, 21)]
    running = [asyncio.ensure_future(engine.submit(batch_of(model, each))) for each in requests]
    await until(lambda: transfers.in_flight == 2)
    device.resume("download")
    for request, answers in zip(requests, await asyncio.gather(*running), strict=True):
        check_same(stages_of(answers[0]), encode(model, request))
    engine.close()


def test_a_request_that_was_halved_is_answered_like_a_whole_one(model):
    work = ModelWork(model, clouds(20, 21, 22))
    left, right = work.halve()
    check_same(
        stages_of(left.join(left.inline(10**9), right.inline(10**9))), stages_of(work.inline(10**9))
    )
    assert ModelWork(model, clouds(9)).halve() is None


def test_a_request_that_was_cancelled_is_not_begun(model):
    batch = batch_of(model, clouds(20, 21), clouds(5))
    batch.cancel(0)
    cancelled, other = batch.run_on_cpu()
    assert cancelled is None
    assert "indices_0" in other
