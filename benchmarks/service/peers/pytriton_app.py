"""PyTriton server: Triton's core and gRPC endpoint, and the program in Python behind it.

python pytriton_app.py PORT HTTP_PORT METRICS_PORT
"""

import sys

import numpy as np
from handler import JOIN_SECONDS, JOINED, WORKERS, make_handler
from pytriton.decorators import batch
from pytriton.model_config import DynamicBatcher, ModelConfig, Tensor
from pytriton.triton import Triton, TritonConfig


def main(port: int, http_port: int, metrics_port: int) -> None:
    model = make_handler()

    @batch
    def infer(cloud: np.ndarray) -> list[np.ndarray]:
        return [model(cloud)]

    wait = int(1e6 * JOIN_SECONDS) if JOINED > 1 else 0
    config = TritonConfig(
        grpc_address="127.0.0.1", grpc_port=port, http_port=http_port, metrics_port=metrics_port
    )
    with Triton(config=config) as triton:
        triton.bind(
            model_name="cloud",
            infer_func=[infer] * WORKERS,
            inputs=[Tensor(name="cloud", dtype=np.float32, shape=(-1, 3))],
            outputs=[Tensor(name="logits", dtype=np.float32, shape=(-1,))],
            config=ModelConfig(
                max_batch_size=JOINED, batcher=DynamicBatcher(max_queue_delay_microseconds=wait)
            ),
        )
        triton.serve()


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
