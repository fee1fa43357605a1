"""Echo servers, bare gRPC and farpoint-server without kernels: the floor for benchmarks.service.

    python benchmarks/service/echo_server.py bare       gRPC, the messages of protobuf and the ops,
                                                        on the device that follows
    python benchmarks/service/echo_server.py farpoint   farpoint-server, all but the kernels
    python benchmarks/service/echo_server.py kernels    farpoint-server as it is

Further arguments of the others are flags of farpoint-server. Each prints HOST:PORT on standard
output when it serves.
"""

import asyncio
import json
import os
import sys
import threading

import grpc

from farpoint.v1 import sampling_pb2 as pb
from farpoint.v1 import tensor_pb2

UNLIMITED = (("grpc.max_receive_message_length", -1), ("grpc.max_send_message_length", -1))


async def _echo(request: pb.SampleRequest, _: object) -> pb.SampleResponse:
    return pb.SampleResponse(points=request.points)


async def bare() -> None:
    """The methods Protobuf and Sample of the service bare.Echo."""
    import torch

    from farpoint_ops import farthest_point_sample

    device = sys.argv[2] if len(sys.argv) > 2 else "cpu"

    async def sample(request: pb.SampleRequest, _: object) -> pb.SampleResponse:
        data = bytearray(request.points.data)
        cloud = torch.frombuffer(data, dtype=torch.float32).view(1, -1, 3)
        rows = farthest_point_sample(cloud.to(device), request.sample_counts[0])[0].cpu().numpy()
        data_type = tensor_pb2.DATA_TYPE_INT32
        tensor = tensor_pb2.Tensor(data_type=data_type, shape=rows.shape, data=rows.tobytes())
        return pb.SampleResponse(indices=tensor)

    codec = pb.SampleRequest.FromString, pb.SampleResponse.SerializeToString
    methods = {
        name: grpc.unary_unary_rpc_method_handler(method, *codec)
        for name, method in (("Protobuf", _echo), ("Sample", sample))
    }
    server = grpc.aio.server(options=UNLIMITED)
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler("bare.Echo", methods),))
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    print(f"127.0.0.1:{port}", flush=True)
    await server.wait_for_termination()


def farpoint(*, kernels: bool) -> None:
    """The server as it is; without kernels, the samples of a cloud are its first rows."""
    import torch

    from farpoint_server import __main__ as command
    from farpoint_server.codec.raw_sample import RawSample
    from farpoint_server.compute.memory import host
    from farpoint_server.kinds.sample import SampleKernel

    def first_rows(_, points, offsets, sample_offsets, *others, cancelled=None):  # noqa: ARG001
        counts = sample_offsets.diff()
        rows = torch.arange(int(sample_offsets[-1]))
        firsts = (offsets[:-1] - sample_offsets[:-1]).repeat_interleave(counts)
        return [(rows + firsts).int()]

    if not kernels:
        SampleKernel.__call__ = first_rows
        RawSample.read = lambda *_, **__: None  # its kernel is not in Python
    os.environ.setdefault("FARPOINT_DEVICE", "cpu")
    sys.argv[1:] = ["--listen", "127.0.0.1:0", "--log-format", "json", *sys.argv[2:]]
    # Before this script starts a thread, as the command does: each may make an arena of malloc's.
    host.detect().set_options(os.environ)
    errors = _print_address()
    try:
        command.main()
    finally:
        os.dup2(errors, sys.stderr.fileno())


def _print_address() -> int:
    """Prints the address of the log's ready line, after which log lines go nowhere.

    Returns:
        A descriptor of standard error, where warnings and errors from before that line go.
    """
    errors = os.dup(sys.stderr.fileno())
    read, write = os.pipe()
    os.dup2(write, sys.stderr.fileno())
    os.close(write)

    def follow() -> None:
        with os.fdopen(read) as lines:
            for line in lines:
                entry = json.loads(line) if line.startswith("{") else {}
                if entry.get("event") == "ready" and "process" not in entry:
                    print(entry["address"], flush=True)
                    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stderr.fileno())
                elif entry.get("level") != "info":
                    os.write(errors, line.encode())

    threading.Thread(target=follow).start()
    return errors


if __name__ == "__main__":
    kind = sys.argv[1]
    if kind == "bare":
        asyncio.run(bare())
    else:
        farpoint(kernels=kind == "kernels")
