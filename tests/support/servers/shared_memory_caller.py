"""A process that samples one large cloud after another from shared memory until it is killed.

python shared_memory_caller.py TARGET SHARED_MEMORY
"""

import sys

import numpy as np

import farpoint

with farpoint.Client(sys.argv[1], shared_memory=sys.argv[2]) as client:
    cloud = np.random.default_rng(0).normal(size=(100_000, 3)).astype(np.float32)
    while True:
        client.sample(cloud, 1)
        print("sampled", flush=True)
