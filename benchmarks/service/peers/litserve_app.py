"""LitServe server over HTTP, with octet streams as bodies.

python litserve_app.py PORT WORKERS
"""

import sys
from typing import Annotated

import litserve
from fastapi import Depends, Request, Response
from sampling import answer


async def body(request: Request) -> bytes:
    return await request.body()


class Cloud(litserve.LitAPI):
    def setup(self, device: str) -> None:
        pass

    def decode_request(self, request: Annotated[bytes, Depends(body)]) -> bytes:
        return request

    def predict(self, request: bytes) -> bytes:
        return answer(request)

    def encode_response(self, reply: bytes) -> Response:
        return Response(reply, media_type="application/octet-stream")


if __name__ == "__main__":
    port, workers = map(int, sys.argv[1:])
    server = litserve.LitServer(
        Cloud(), accelerator="cpu", workers_per_device=workers, fast_queue=True
    )
    server.run(
        host="127.0.0.1",
        port=port,
        num_api_servers=1,
        generate_client_file=False,
        log_level="warning",
        access_log=False,
        timeout_keep_alive=300,
    )
