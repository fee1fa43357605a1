"""Request handler that every compared server runs: 8 bytes of header, then a float32 cloud.

The header is (samples, height) as int32. No samples asks for the request back; otherwise the
answer is the int32 indices that fpsample chooses, in order. Run as a program, it reads a request
on standard input and prints the fastest tree height for each sample count it is given.
"""

import json
import struct
import sys
import time

import fpsample
import numpy as np

HEADER = struct.Struct("<ii")
HEIGHTS = (3, 5, 7, 9)
TRIES = 11


def answer(request: bytes) -> bytes:
    samples, height = HEADER.unpack_from(request)
    if samples == 0:
        return request
    cloud = np.frombuffer(request, "<f4", offset=HEADER.size).reshape(-1, 3)
    rows = fpsample.bucket_fps_kdline_sampling(cloud, samples, height, start_idx=0)
    return rows.astype("<i4").tobytes()


def _seconds(request: bytes) -> float:
    # Of the processor, which others on the machine disturb less; it samples on one thread.
    begun = time.process_time()
    answer(request)
    return time.process_time() - begun


def best_height(cloud: bytes, samples: int) -> int:
    def fastest(height: int) -> float:
        request = HEADER.pack(samples, height) + cloud
        return min(_seconds(request) for _ in range(TRIES))

    return min(HEIGHTS, key=fastest)


if __name__ == "__main__":
    cloud = sys.stdin.buffer.read()
    print(json.dumps({count: best_height(cloud, int(count)) for count in sys.argv[1:]}))
