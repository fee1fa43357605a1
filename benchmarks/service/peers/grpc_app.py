"""Hand-written grpc.aio server over fpsample: bytes in and out, no message to parse.

    python grpc_app.py PORT

fpsample holds the interpreter lock, so a process for each core samples.
"""

import asyncio
import os
import sys
from concurrent.futures import ProcessPoolExecutor

import grpc
from handler import Sampler

HANDLER = Sampler()
UNLIMITED = (("grpc.max_receive_message_length", -1), ("grpc.max_send_message_length", -1))


async def serve(port: str, pool: ProcessPoolExecutor) -> None:
    async def sample(request: bytes, _: object) -> bytes:
        loop = asyncio.get_running_loop()
        return (await loop.run_in_executor(pool, HANDLER.answer, [request]))[0]

    methods = {"Answer": grpc.unary_unary_rpc_method_handler(sample)}
    server = grpc.aio.server(options=UNLIMITED)
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler("peer.Cloud", methods),))
    server.add_insecure_port(f"127.0.0.1:{port}")
    await server.start()
    await server.wait_for_termination()


if __name__ == "__main__":
    # The workers are forked before gRPC has threads.
    with ProcessPoolExecutor(os.cpu_count()) as workers:
        list(workers.map(abs, range(64)))
        asyncio.run(serve(sys.argv[1], workers))
