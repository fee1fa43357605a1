"""A server by hand, as a floor: grpc.aio, the messages of protobuf and the ops.

    python benchmarks/service/bare_server.py [DEVICE]

It prints HOST:PORT on standard output when it serves the method Sample of bare.Server.
"""

import asyncio
import sys

import grpc
import torch

from farpoint.v1 import sampling_pb2 as pb
from farpoint.v1 import tensor_pb2
from farpoint_ops import farthest_point_sample

UNLIMITED = (("grpc.max_receive_message_length", -1), ("grpc.max_send_message_length", -1))


async def serve(device: str) -> None:
    async def sample(request: pb.SampleRequest, _: object) -> pb.SampleResponse:
        data = bytearray(request.points.data)
        cloud = torch.frombuffer(data, dtype=torch.float32).view(1, -1, 3)
        rows = farthest_point_sample(cloud.to(device), request.sample_counts[0])[0].cpu().numpy()
        data_type = tensor_pb2.DATA_TYPE_INT32
        tensor = tensor_pb2.Tensor(data_type=data_type, shape=rows.shape, data=rows.tobytes())
        return pb.SampleResponse(indices=tensor)

    codec = pb.SampleRequest.FromString, pb.SampleResponse.SerializeToString
    methods = {"Sample": grpc.unary_unary_rpc_method_handler(sample, *codec)}
    server = grpc.aio.server(options=UNLIMITED)
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler("bare.Server", methods),))
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    print(f"127.0.0.1:{port}", flush=True)
    await server.wait_for_termination()


if __name__ == "__main__":
    asyncio.run(serve(sys.argv[1] if len(sys.argv) > 1 else "cpu"))
