"""System shared memory of Triton's protocol, by NVIDIA's own client."""

import os
import uuid
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from tests.support.servers.server_process import RunningServer
from tests.support.triton import CLOUD, fps_inputs, refusal, tensor, triton

import farpoint

shm = pytest.importorskip("tritonclient.utils.shared_memory")

PREFIX = f"farpoint_test_{os.getpid()}_"
SIZE = 1 << 16
INVALID = "StatusCode.INVALID_ARGUMENT"
MADE = tuple[str, str, Any]


@pytest.fixture(scope="module")
def memory_server() -> Iterator[RunningServer]:
    server = RunningServer(
        *("--system-shared-memory-prefix", PREFIX, "--max-bytes-in-flight", "2000000"),
        *("--max-message-bytes", "1000000", "--encoder", "default"),
    )
    yield server
    assert server.stop() == 0


@pytest.fixture
def stock(memory_server: RunningServer) -> Iterator[Any]:
    with triton.InferenceServerClient(memory_server.address) as client:
        yield client
        client.unregister_system_shared_memory()


@pytest.fixture
def make() -> Iterator[Callable[..., MADE]]:
    """Makes memory objects: name, key and handle of each."""
    handles = []

    def make(size: int = SIZE, prefix: str = PREFIX) -> MADE:
        name = uuid.uuid4().hex
        handle = shm.create_shared_memory_region(name, f"/{prefix}{name}", size)
        handles.append(handle)
        return name, f"/{prefix}{name}", handle

    yield make
    for handle in handles:
        shm.destroy_shared_memory_region(handle)


def shared(name: str, array: np.ndarray, region: str, offset: int = 0) -> Any:
    made = tensor(name, array)
    made.set_shared_memory(region, array.nbytes, offset)
    return made


def requested(name: str, region: str | None = None, size: int = 0, offset: int = 0) -> Any:
    made = triton.InferRequestedOutput(name)
    if region is not None:
        made.set_shared_memory(region, size, offset)
    return made


def test_inputs_are_read_and_outputs_written_where_they_lie(stock, make, memory_server):
    name, key, handle = make()
    stock.register_system_shared_memory(name, key, SIZE)
    shm.set_shared_memory_region(handle, [CLOUD], offset=64)
    count = np.array([20])
    inputs = [shared("points", CLOUD, name, 64), tensor("sample_count", count)]
    outputs = [requested("indices", name, 400, 30_000), requested("distances")]
    outputs.append(requested("points", name, 2 * 20 * 3 * 4, 40_000))
    result = stock.infer("fps", inputs, outputs=outputs)
    with farpoint.Client(memory_server.address) as ours:
        expected = ours.sample(CLOUD, 20)
    indices = np.array([s.indices for s in expected])
    np.testing.assert_array_equal(
        shm.get_contents_as_numpy(handle, np.int32, (2, 20), 30_000), indices
    )
    points = shm.get_contents_as_numpy(handle, np.float32, (2, 20, 3), 40_000)
    np.testing.assert_array_equal(points, np.array([s.points for s in expected]))
    distances = np.array([s.distances for s in expected])
    np.testing.assert_array_equal(result.as_numpy("distances"), distances)
    described = result.get_output("indices")
    assert (described.datatype, list(described.shape)) == ("INT32", [2, 20])
    assert described.parameters["shared_memory_region"].string_param == name
    assert described.parameters["shared_memory_byte_size"].int64_param == 160
    assert result.get_response().raw_output_contents[0] == b""


def test_a_region_may_begin_within_its_object(stock, make):
    name, key, handle = make()
    stock.register_system_shared_memory(name, key, 10_000, offset=4096)
    shm.set_shared_memory_region(handle, [CLOUD, np.array([5])], offset=4096)
    inputs = [shared("points", CLOUD, name), shared("sample_count", np.array([5]), name, 7200)]
    result = stock.infer("fps", inputs)
    np.testing.assert_array_equal(
        result.as_numpy("indices"), stock.infer("fps", fps_inputs(CLOUD, 5)).as_numpy("indices")
    )


def test_an_encoder_and_a_stream_take_them_too(stock, make):
    name, key, handle = make()
    stock.register_system_shared_memory(name, key, SIZE)
    shm.set_shared_memory_region(handle, [CLOUD])
    plain = stock.infer("density_small", [tensor("points", CLOUD)])
    wanted = plain.as_numpy("features_0")
    output = requested("features_0", name, wanted.nbytes, 7200)
    answers: list[Any] = []
    stock.start_stream(lambda result, error: answers.append(error or result))
    stock.async_stream_infer("density_small", [shared("points", CLOUD, name)], outputs=[output])
    stock.stop_stream()
    (answer,) = answers
    assert tuple(answer.get_output("features_0").shape) == wanted.shape
    got = shm.get_contents_as_numpy(handle, np.float32, wanted.shape, 7200)
    np.testing.assert_array_equal(got, wanted)


def test_regions_are_listed_and_forgotten(stock, make):
    (first, key, _), (second, other, _) = make(), make()
    stock.register_system_shared_memory(first, key, 100, offset=8)
    stock.register_system_shared_memory(second, other, SIZE)
    assert set(stock.get_system_shared_memory_status().regions) == {first, second}
    region = stock.get_system_shared_memory_status(first).regions[first]
    assert (region.name, region.key, region.offset, region.byte_size) == (first, key, 8, 100)
    stock.unregister_system_shared_memory(first)
    assert set(stock.get_system_shared_memory_status().regions) == {second}
    status, text = refusal(lambda: stock.get_system_shared_memory_status(first))
    assert status == "StatusCode.NOT_FOUND"
    assert text == f"name: expected a region that is registered, got '{first}'"
    assert "system_shared_memory" in stock.get_server_metadata().extensions


def test_wrong_ranges_are_refused_by_name(stock, make):
    name, key, handle = make()
    stock.register_system_shared_memory(name, key, SIZE)
    shm.set_shared_memory_region(handle, [CLOUD])
    count = tensor("sample_count", np.array([5]))
    beyond = shared("points", CLOUD, name, SIZE - 7199)
    short = tensor("points", CLOUD)
    short.set_shared_memory(name, 7196)
    unknown = shared("points", CLOUD, "nobody's")
    for made, field in (
        (beyond, "inputs[points].parameters[shared_memory_offset]"),
        (short, "inputs[points].parameters[shared_memory_byte_size]"),
        (unknown, "inputs[points].parameters[shared_memory_region]"),
    ):
        status, text = refusal(lambda made=made: stock.infer("fps", [made, count]))
        assert (status, text.partition(": ")[0]) == (INVALID, field)


def test_outputs_that_do_not_fit_are_refused_and_none_is_written(stock, make):
    name, key, handle = make()
    stock.register_system_shared_memory(name, key, SIZE)
    outputs = [requested("indices", name, 160), requested("distances", name, 159, 1000)]
    assert refusal(lambda: stock.infer("fps", fps_inputs(), outputs=outputs)) == (
        INVALID,
        "outputs[distances].parameters[shared_memory_byte_size]: expected at least 160 bytes, "
        "got 159",
    )
    assert not shm.get_contents_as_numpy(handle, np.uint8, (SIZE,)).any()


def test_an_object_that_is_shortened_or_removed_does_not_end_the_server(stock, make):
    name, key, handle = make()
    stock.register_system_shared_memory(name, key, SIZE)
    shm.set_shared_memory_region(handle, [CLOUD])
    inputs = [shared("points", CLOUD, name), tensor("sample_count", np.array([5]))]
    os.truncate(f"/dev/shm{key}", 100)
    status, text = refusal(lambda: stock.infer("fps", inputs))
    assert status == INVALID
    assert text.startswith("inputs[points]: ")
    assert text.endswith("got a memory object that was shortened")
    outputs = [requested("indices", name, 160)]
    assert refusal(lambda: stock.infer("fps", fps_inputs(), outputs=outputs))[0] == INVALID
    assert os.stat(f"/dev/shm{key}").st_size == 100
    os.truncate(f"/dev/shm{key}", SIZE)
    assert stock.is_server_live()


def test_objects_of_others_are_out_of_reach(stock, make):
    name, key, _ = make(prefix=f"another_{os.getpid()}_")
    status, text = refusal(lambda: stock.register_system_shared_memory(name, key, 8))
    assert (status, text.partition(": ")[0]) == (INVALID, "key")


def test_what_is_read_is_bounded_by_the_bytes_in_flight(stock, make):
    name, key, _ = make(4_000_000)
    stock.register_system_shared_memory(name, key, 4_000_000)
    count = tensor("sample_count", np.array([5]))
    large = shared("points", np.zeros((200_000, 3), np.float32), name)
    status, text = refusal(lambda: stock.infer("fps", [large, count]))
    assert (status, text) == (
        INVALID,
        "inputs[points].parameters[shared_memory_byte_size]: expected 0 to 2000000 bytes, "
        "got 2400000",
    )
    both = [
        shared("points", np.zeros((100_000, 3), np.float32), name),
        shared("features", np.zeros((100_000, 3), np.float32), name),
    ]
    assert refusal(lambda: stock.infer("fps", [*both, count])) == (
        INVALID,
        "inputs: expected at most 2000000 bytes in shared memory, got 2400000",
    )


def test_a_token_sees_the_regions_that_it_registered_alone(start, make, tmp_path):
    tokens = tmp_path / "tokens"
    tokens.write_text(f"a sample {'a' * 32}\nb sample {'b' * 32}\nops admin {'o' * 32}\n")
    server = start("--system-shared-memory-prefix", PREFIX, "--tokens-file", str(tokens))
    a, b, ops = ({"authorization": f"Bearer {letter * 32}"} for letter in "abo")
    name, key, handle = make()
    with triton.InferenceServerClient(server.address) as stock:
        stock.register_system_shared_memory(name, key, SIZE, headers=a)
        shm.set_shared_memory_region(handle, [CLOUD])
        inputs = [shared("points", CLOUD, name), tensor("sample_count", np.array([5]))]
        assert stock.infer("fps", inputs, headers=a).as_numpy("indices").shape == (2, 5)
        status, text = refusal(lambda: stock.infer("fps", inputs, headers=b))
        assert (status, text.partition(": ")[0]) == (
            INVALID,
            "inputs[points].parameters[shared_memory_region]",
        )
        stock.unregister_system_shared_memory(headers=b)
        assert not stock.get_system_shared_memory_status(headers=b).regions
        assert set(stock.get_system_shared_memory_status(headers=a).regions) == {name}
        for call, headers in (
            (stock.get_system_shared_memory_status, ops),
            (lambda headers: stock.load_model("density_small", headers=headers), a),
            (lambda headers: stock.unload_model("density_small", headers=headers), a),
        ):
            status, _ = refusal(lambda call=call, headers=headers: call(headers=headers))
            assert status == "StatusCode.PERMISSION_DENIED"
        status, text = refusal(lambda: stock.load_model("density_small", headers=ops))
        assert status == "StatusCode.UNIMPLEMENTED"
        assert "--admin-listen" in text
