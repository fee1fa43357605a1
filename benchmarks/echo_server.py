"""Servers that only carry clouds: the floor for bench_service.py.

    python benchmarks/echo_server.py bare       gRPC alone: bytes, or protobuf messages
    python benchmarks/echo_server.py farpoint   farpoint-server with every part but the kernels
    python benchmarks/echo_server.py kernels    farpoint-server as it is

Each prints HOST:PORT on standard output when it serves.
"""

import asyncio
import json
import os
import sys
import threading

import grpc
import numpy as np

from farpoint.v1 import sampling_pb2 as pb

UNLIMITED = (("grpc.max_receive_message_length", -1), ("grpc.max_send_message_length", -1))


async def _bytes(request: bytes, _: object) -> bytes:
    return request


async def _protobuf(request: pb.SampleRequest, _: object) -> pb.SampleResponse:
    return pb.SampleResponse(points=request.points)


async def bare() -> None:
    """Methods /bare.Echo/Bytes and /bare.Echo/Protobuf."""
    methods = {
        "Bytes": grpc.unary_unary_rpc_method_handler(_bytes),
        "Protobuf": grpc.unary_unary_rpc_method_handler(
            _protobuf, pb.SampleRequest.FromString, pb.SampleResponse.SerializeToString
        ),
    }
    server = grpc.aio.server(options=UNLIMITED)
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler("bare.Echo", methods),))
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    print(f"127.0.0.1:{port}", flush=True)
    await server.wait_for_termination()


def farpoint(*, kernels: bool) -> None:
    """The server as it is; without kernels, the samples of a cloud are its first rows."""
    from farpoint_server import __main__ as command
    from farpoint_server import engine

    def first_rows(batch, _):
        lengths = np.concatenate([clouds.lengths for clouds in batch.requests])
        counts = np.concatenate([clouds.sample_counts for clouds in batch.requests])
        firsts = lengths.cumsum() - lengths
        pairs = zip(firsts, counts, strict=True)
        return np.concatenate([np.arange(f, f + m, dtype=np.int32) for f, m in pairs]), None

    if not kernels:
        engine.launch = first_rows
    sys.argv[1:] = ["--listen", "127.0.0.1:0", "--device", "cpu", "--log-format", "json"]
    _tell_address()
    command.main()


def _tell_address() -> None:
    """Copies the address from the ready line of the log, which standard error then is."""
    read, write = os.pipe()
    os.dup2(write, sys.stderr.fileno())

    def follow() -> None:
        with os.fdopen(read) as lines:
            for line in lines:
                if line.startswith("{") and json.loads(line).get("event") == "ready":
                    print(json.loads(line)["address"], flush=True)

    threading.Thread(target=follow, daemon=True).start()


if __name__ == "__main__":
    kind = sys.argv[1]
    if kind == "bare":
        asyncio.run(bare())
    else:
        farpoint(kernels=kind == "kernels")
