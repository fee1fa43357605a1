"""LitServe server over HTTP, with octet streams as bodies; joins what waits.

python litserve_app.py PORT
"""

import sys
from typing import Annotated

import litserve
from fastapi import Depends, Request, Response
from handler import JOIN_SECONDS, JOINED, WORKERS, make_handler


async def body(request: Request) -> bytes:
    return await request.body()


class Cloud(litserve.LitAPI):
    def setup(self, device: str) -> None:  # noqa: ARG002 - the name it is called by
        self.handler = make_handler()

    def decode_request(self, request: Annotated[bytes, Depends(body)]) -> bytes:
        return request

    def batch(self, inputs: list[bytes]) -> list[bytes]:
        return inputs

    def predict(self, request: bytes | list[bytes]) -> bytes | list[bytes]:
        if isinstance(request, list):
            return self.handler.answer(request)
        return self.handler.answer([request])[0]

    def unbatch(self, output: list[bytes]) -> list[bytes]:
        return output

    def encode_response(self, reply: bytes) -> Response:
        return Response(reply, media_type="application/octet-stream")


if __name__ == "__main__":
    server = litserve.LitServer(
        Cloud(max_batch_size=JOINED, batch_timeout=JOIN_SECONDS),
        accelerator="cpu",
        workers_per_device=WORKERS,
        fast_queue=True,
    )
    server.run(
        host="127.0.0.1",
        port=int(sys.argv[1]),
        num_api_servers=1,
        generate_client_file=False,
        log_level="warning",
        access_log=False,
        timeout_keep_alive=300,
    )
