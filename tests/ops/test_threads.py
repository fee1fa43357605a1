"""Threading of the ops: the number of threads changes no result."""

import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest
import torch

from farpoint_ops import (
    ball_query,
    farthest_point_sample,
    gather_points,
    interpolate,
    knn,
    nearest_sample,
)

scatter_points = torch.ops.farpoint.scatter_points
interpolate_scatter = torch.ops.farpoint.interpolate_scatter


@pytest.mark.usefixtures("restored_threads")
def test_the_number_of_threads_changes_no_bit() -> None:
    clouds = torch.rand(5, 3000, 3, generator=torch.Generator().manual_seed(0))
    results = []
    for threads in (1, 2, 7):
        torch.set_num_threads(threads)
        idx, radii = farthest_point_sample(clouds, 300, return_distances=True)
        gathered = gather_points(clouds.transpose(1, 2), idx % 50)
        near, squared = knn(clouds, clouds[:, :900], 5)
        results.append(
            (
                *(idx, radii, gathered, scatter_points(gathered, idx % 50, 50), near, squared),
                *ball_query(clouds, clouds[:, :900], 0.1, 9),
                *nearest_sample(clouds, clouds[:, :900]),
                interpolate(gathered, near % 300, squared),
                interpolate_scatter(gathered[..., :1].expand(-1, -1, 900), near, squared, 3000),
            )
        )
    for other in results[1:]:
        assert all(torch.equal(a, b) for a, b in zip(results[0], other, strict=True))


def test_many_python_threads_share_the_ops() -> None:
    clouds = torch.rand(8, 2000, 3, generator=torch.Generator().manual_seed(0))
    expected = farthest_point_sample(clouds, 100)
    found: dict[int, torch.Tensor] = {}

    def sample(b: int) -> None:
        found[b] = farthest_point_sample(clouds[b : b + 1], 100)

    workers = [threading.Thread(target=sample, args=(b,)) for b in range(8)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert torch.equal(torch.cat([found[b] for b in range(8)]), expected)


REFUSING = """
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
int left = 1000;
int pthread_create(pthread_t* thread, const pthread_attr_t* attributes, void* (*start)(void*),
                   void* argument) {
  if (left-- <= 0) return EAGAIN;
  int (*create)(pthread_t*, const pthread_attr_t*, void* (*)(void*), void*) =
      dlsym(RTLD_NEXT, "pthread_create");
  return create(thread, attributes, start, argument);
}
"""
SAMPLES = """
import ctypes, sys, torch
from farpoint_ops import farthest_point_sample
left = ctypes.c_int.in_dll(ctypes.CDLL(sys.argv[1]), "left")
torch.set_num_threads(4)
for shape, m in (((8, 20_000, 3), 400), ((1, 120_000, 3), 9000), ((4, 30_000, 16), 300)):
    clouds = torch.rand(shape)
    expected = farthest_point_sample(clouds, m)
    for threads in (0, 1, 2):
        left.value = threads
        assert torch.equal(farthest_point_sample(clouds, m), expected)
        left.value = 1000
"""


def test_sampling_takes_the_threads_that_the_system_has(tmp_path: Path) -> None:
    source, library = tmp_path / "refusing.c", tmp_path / "refusing.so"
    source.write_text(REFUSING)
    command = ["g++", "-x", "c", "-shared", "-fPIC", source, "-o", library, "-ldl"]
    subprocess.run(command, check=True)
    environment = {**os.environ, "LD_PRELOAD": str(library)}
    subprocess.run([sys.executable, "-c", SAMPLES, library], check=True, env=environment)
