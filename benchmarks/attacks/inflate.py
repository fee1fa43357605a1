"""Messages of many parts: status, longest wait of a health check beside them, and memory they cost.

    python -m benchmarks.attacks inflate [--only NAME ...]

Each is sent once to a server of its own, with default settings, after a request that it serves.
Prints the size of the message, the time to its answer, the longest health check meanwhile, by how
much the server's peak resident memory grew, and what it answered.
"""

import argparse
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import grpc
import numpy as np
from grpc_health.v1 import health_pb2, health_pb2_grpc  # type: ignore[import-untyped]

from benchmarks.service.load import SAMPLE, UNLIMITED, request
from benchmarks.service.memory import serving
from farpoint.v1 import sampling_pb2 as pb
from farpoint.v1 import tensor_pb2
from farpoint.inference import open_inference_pb2 as oi
from farpoint_server.codec.wire import length_delimited

POINTS = 2000
GOOD = request(np.random.default_rng(0).random((POINTS, 3), np.float32), 2)
PACKED = b"\1" * 60_000_000
STREAM, ENCODE = SAMPLE + "Stream", SAMPLE[: -len("Sample")] + "Encode"
INFER = "/inference.GRPCInferenceService/ModelInfer"


def field(number: int, content: bytes) -> bytes:
    """A field that holds bytes, a message or packed numbers."""
    return b"".join(length_delimited(number, [content]))


def attributes() -> bytes:
    """A million of no width, each of its own name."""
    width = tensor_pb2.Tensor(data_type=1, shape=[POINTS, 0]).SerializeToString()
    return b"".join(field(7, field(1, b"%x" % i) + field(2, width)) for i in range(1_000_000))


def typed(points: int) -> bytes:
    """An honest request with typed contents."""
    made = oi.ModelInferRequest(model_name="fps")
    tensor = made.inputs.add(name="points", datatype="FP32", shape=[points, 3])
    tensor.contents.fp32_contents.extend(np.random.default_rng(0).random(3 * points, np.float32))
    count = made.inputs.add(name="sample_count", datatype="INT64", shape=[1])
    count.contents.int64_contents.append(4)
    return made.SerializeToString()


def named(name: str, shape: Sequence[int]) -> bytes:
    """An inference request with an input of such a name and shape."""
    made = oi.ModelInferRequest(model_name="fps")
    made.inputs.add(name=name, datatype="FP32", shape=shape)
    made.inputs.add(name="sample_count", datatype="INT64", shape=[1])
    made.raw_input_contents.extend([b"", bytes(8)])
    return made.SerializeToString()


MESSAGES: dict[str, tuple[str, Callable[[], bytes]]] = {
    "attributes": (SAMPLE, lambda: GOOD + attributes()),
    "counts": (SAMPLE, lambda: GOOD + field(3, PACKED)),
    "dimensions": (SAMPLE, lambda: GOOD + field(1, field(2, PACKED))),
    "unknown-fields": (SAMPLE, lambda: GOOD + b"\xf8\7\1" * 20_000_000),
    "stream": (STREAM, lambda: field(1, GOOD + attributes())),
    "encode-lengths": (ENCODE, lambda: field(2, PACKED)),
    "infer-dimensions": (INFER, lambda: named("points", [2**62] * 30_000)),
    "infer-name": (INFER, lambda: named("x" * (8 << 20), [1])),
    "infer-inputs": (INFER, lambda: field(1, b"fps") + field(5, b"") * 20_000_000),
    "infer-outputs": (INFER, lambda: typed(1000) + field(6, field(1, b"indices")) * 200_000),
    "infer-numbers": (INFER, lambda: field(5, field(5, field(3, PACKED)))),
    "infer-typed": (INFER, lambda: typed(120_000)),
}


def main(options: Sequence[str]) -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", nargs="*", choices=MESSAGES, default=list(MESSAGES))
    print(f"{'message':18}{'MB':>8}{'seconds':>10}{'wait ms':>10}{'MiB':>8}  answer")
    for name in parser.parse_args(options).only:
        method, make = MESSAGES[name]
        raw = make()
        seconds, wait, grown, answer = attack(method, raw)
        size = len(raw) / 1e6
        print(f"{name:18}{size:8.1f}{seconds:10.2f}{wait * 1e3:10.0f}{grown:8.0f}  {answer[:60]}")


def attack(method: str, raw: bytes) -> tuple[float, float, float, str]:
    """Seconds, longest health check in seconds, growth of peak memory in MiB, and the answer."""
    with (
        serving("cpu", "--encoder", "default") as (address, process),
        grpc.insecure_channel(address, options=UNLIMITED) as channel,
    ):
        channel.unary_unary(SAMPLE)(GOOD)
        before = resident_mib(process, "VmRSS")
        with health_checks(address) as waits:
            began = time.perf_counter()
            answer = send(channel, method, raw)
            seconds = time.perf_counter() - began
        return seconds, max(waits), resident_mib(process, "VmHWM") - before, answer


@contextmanager
def health_checks(address: str) -> Iterator[list[float]]:
    """Seconds of each of the checks that are made one after the other while a block runs."""
    waits = [0.0]
    is_over = threading.Event()

    def watch() -> None:
        with grpc.insecure_channel(address) as channel:
            check = health_pb2_grpc.HealthStub(channel).Check
            while not is_over.wait(0.002):
                began = time.perf_counter()
                check(health_pb2.HealthCheckRequest())
                waits.append(time.perf_counter() - began)

    watcher = threading.Thread(target=watch)
    watcher.start()
    try:
        yield waits
    finally:
        is_over.set()
        watcher.join()


def send(channel: grpc.Channel, method: str, raw: bytes) -> str:
    """The status of a call and what was said."""
    try:
        if method != STREAM:
            return f"OK, {len(channel.unary_unary(method)(raw))} bytes"
        read = pb.SampleStreamResponse.FromString
        (answer,) = channel.stream_stream(method, None, read)(iter([raw]))
        return f"{answer.error.code} {answer.error.message}"
    except grpc.RpcError as error:
        return f"{error.code().name} {error.details()}"


def resident_mib(process: int, which: str) -> float:
    """A line of /proc/PID/status in MiB."""
    lines = Path(f"/proc/{process}/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(f"{which}:")) / 1024
