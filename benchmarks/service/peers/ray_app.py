"""Ray Serve application behind its gRPC ingress, with a generic method of bytes in and out.

python ray_app.py PORT HTTP_PORT REPLICAS
"""

import sys
import threading

import grpc
import ray
from handler import Sampler
from ray import serve
from ray.serve.config import gRPCOptions

HANDLER = Sampler()


class Reply(bytes):
    """The interface of a reply in Ray Serve, which need not be a protobuf message."""

    def SerializeToString(self) -> bytes:  # noqa: N802 - protobuf's name
        return bytes(self)


@serve.deployment(max_ongoing_requests=128)
class Cloud:
    def Answer(self, request: bytes) -> Reply:  # noqa: N802 - the method's name on the wire
        return Reply(HANDLER.answer([request])[0])


def add_to_server(servicer: object, server: grpc.aio.Server) -> None:
    methods = {"Answer": grpc.unary_unary_rpc_method_handler(servicer.Answer)}
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler("peer.Cloud", methods),))


def main(port: int, http_port: int, replicas: int) -> None:
    ray.init("local", num_cpus=replicas + 2, include_dashboard=False, log_to_driver=False)
    serve.start(
        http_options={"port": http_port},
        grpc_options=gRPCOptions(port=port, grpc_servicer_functions=["ray_app.add_to_server"]),
    )
    serve.run(Cloud.options(num_replicas=replicas).bind())
    threading.Event().wait()


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
