"""Bindings of other projects' CUDA farthest point sampling kernels, from local checkouts.

`benchmarks/peers` holds checkouts of the repositories that `MAKERS` names, ignored by git; each is
compiled and measured where it is present. docs/performance_cuda.md says which they are.
"""

import importlib.util
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from benchmarks.cuda.timing import Sampler

PEERS = Path(__file__).parents[1] / "peers"

CLUSTER_BINDING = """
#include <torch/extension.h>
torch::Tensor fps_cuda(torch::Tensor src, torch::Tensor ptr, torch::Tensor ratio, bool start);
PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("fps", &fps_cuda); }
"""
PYTORCH3D_BINDING = """
#include <torch/extension.h>
at::Tensor FarthestPointSamplingCuda(const at::Tensor&, const at::Tensor&, const at::Tensor&,
                                     const at::Tensor&, int64_t);
PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("fps", &FarthestPointSamplingCuda); }
"""
FPSAMPLE_BINDING = """
#include <torch/extension.h>
std::tuple<at::Tensor, at::Tensor> sample_cuda_impl(const at::Tensor&, int64_t,
                                                    std::optional<int64_t>, std::optional<int64_t>);
PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("fps", &sample_cuda_impl); }
"""
# Sorts the cloud in place and gives points, not indices. `up` has room behind it, where
# generateBoundbox writes what it means for shared memory.
BUCKET_FPS_BINDING = """
#include <torch/extension.h>
#include <vector_types.h>
void buildKDTree(int*, int*, float3*, int, float3*, float3*, int);
void sample(int*, int*, float3*, int, int, float3*, float3*, int, float3*);
at::Tensor fps(at::Tensor cloud, int64_t m, int64_t height) {
  const int n = cloud.size(0), buckets = 1 << height;
  const auto points = [](at::Tensor t) { return reinterpret_cast<float3*>(t.data_ptr<float>()); };
  const auto begin = at::zeros({buckets}, cloud.options().dtype(at::kInt));
  const auto length = at::full_like(begin, n);
  const auto up = at::empty({3072, 3}, cloud.options()), down = at::empty_like(up);
  const auto samples = at::empty({m, 3}, cloud.options());
  int *const b = begin.data_ptr<int>(), *const l = length.data_ptr<int>();
  buildKDTree(b, l, points(cloud), height, points(up), points(down), n);
  sample(b, l, points(cloud), n, buckets, points(up), points(down), m, points(samples));
  return samples;
}
PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("fps", &fps); }
"""
BUCKET_FPS_KERNELS = """
#include <cassert>
#include "device_common.cu"
#include "kdtree.cu"
"""

Samplers = dict[str, Sampler]


def _toolkit_headers() -> list[Path]:
    """Of cuSPARSE and its like, which torch's headers ask for and a small toolkit lacks."""
    packages = Path(torch.__file__).parents[1] / "nvidia"
    return sorted(path for path in packages.glob("cu*/include") if path.is_dir())


def _compile(
    name: str, ours: dict[str, str], theirs: list[Path], include: Path, **options: Any
) -> Any:
    """A peer's sources, and of our own those that it is called by."""
    from torch.utils.cpp_extension import load

    build = PEERS / "build" / name
    build.mkdir(parents=True, exist_ok=True)
    for file, text in ours.items():
        (build / file).write_text(text)
    return load(
        name=f"peer_{name}",
        sources=[str(source) for source in (*(build / file for file in ours), *theirs)],
        extra_include_paths=[str(include), *map(str, _toolkit_headers())],
        build_directory=str(build),
        **options,
    )


def _cluster(root: Path) -> Samplers:
    kernel = root / "csrc" / "cuda" / "fps_cuda.cu"
    ours = {"binding.cpp": CLUSTER_BINDING}
    module = _compile("pytorch_cluster", ours, [kernel], root / "csrc")

    def sample(xyz: torch.Tensor, m: int) -> Any:
        batch, n, _ = xyz.shape
        ends = torch.arange(batch + 1, device=xyz.device) * n
        ratio = torch.full((batch,), m / n, device=xyz.device)
        return module.fps(xyz.flatten(0, 1), ends, ratio, False)

    return {"pytorch_cluster": sample}


def _pytorch3d(root: Path) -> Samplers:
    sources = root / "pytorch3d" / "csrc"
    kernel = sources / "sample_farthest_points" / "sample_farthest_points.cu"
    module = _compile("pytorch3d", {"binding.cpp": PYTORCH3D_BINDING}, [kernel], sources)

    def sample(xyz: torch.Tensor, m: int) -> Any:
        batch, n, _ = xyz.shape
        lengths, samples = (torch.full((batch,), v, device=xyz.device) for v in (n, m))
        return module.fps(xyz, lengths, samples, torch.zeros_like(lengths), m)

    return {"pytorch3d": sample}


def _at_heights(name: str, sample: Callable[..., Any], own: int, most: int) -> Samplers:
    """A bucket sampler with the tree that is its own default, and with buckets of 32 points."""

    def fine(xyz: torch.Tensor, m: int) -> Any:
        return sample(xyz, m, max(1, min(most, (xyz.size(1) // 32).bit_length() - 1)))

    return {name: lambda xyz, m: sample(xyz, m, own), f"{name}_fine": fine}


def _bucket_fps(root: Path) -> Samplers:
    ours = {"binding.cpp": BUCKET_FPS_BINDING, "kernels.cu": BUCKET_FPS_KERNELS}
    module = _compile("bucket_fps", ours, [], root / "src")

    def sample(xyz: torch.Tensor, m: int, height: int) -> Any:
        return [module.fps(cloud.clone(), m, height) for cloud in xyz]

    return _at_heights("bucket_fps", sample, 8, 10)


def _fpsample(root: Path) -> Samplers:
    sources = root / "csrc" / "cuda"
    ours = {"binding.cpp": FPSAMPLE_BINDING}
    module = _compile("pytorch_fpsample", ours, [sources / "fpsample_cuda_kernel.cu"], sources)
    return _at_heights("pytorch_fpsample", lambda xyz, m, h: module.fps(xyz, m, h, 0), 4, 10)


def _quickfps(root: Path) -> Samplers:
    sources = root / "csrc" / "stable"
    flags = ["-O3", "-DTORCH_TARGET_VERSION=0x020a000000000000"]  # as its setup.py has them
    theirs = [sources / "quickfps_ops.cpp", sources / "cuda" / "quickfps_cuda.cu"]
    options = {"extra_cflags": flags, "extra_cuda_cflags": [*flags, "--use_fast_math"]}
    _compile("torch_quickfps", {}, theirs, root / "csrc", is_python_module=False, **options)

    def sample(xyz: torch.Tensor, m: int, height: int) -> Any:
        first = torch.zeros(len(xyz), dtype=torch.int64, device=xyz.device)
        taken = torch.zeros(xyz.shape[:2], dtype=torch.uint8, device=xyz.device)
        return torch.ops.torch_quickfps._sample_idx_impl(xyz, m, height, first, taken, -1)

    return _at_heights("torch_quickfps", sample, 5, 12)


def _kaolin(root: Path) -> Samplers:
    """Its kernels are Python that Warp compiles on first use; begins at the row farthest out."""
    file = root / "kaolin" / "ops" / "pointcloud.py"
    spec = importlib.util.spec_from_file_location("peer_kaolin", file)
    if spec is None or spec.loader is None:
        raise ImportError(f"no {file}")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return {"kaolin": module.farthest_point_sampling}


MAKERS: dict[str, Callable[[Path], Samplers]] = {
    "pytorch_cluster": _cluster,
    "pytorch3d": _pytorch3d,
    "bucket_fps": _bucket_fps,
    "pytorch_fpsample": _fpsample,
    "torch_quickfps": _quickfps,
    "kaolin": _kaolin,
}


def samplers() -> Samplers:
    """The peers at hand; one that does not compile is reported and left out."""
    found: Samplers = {}
    for name, make in MAKERS.items():
        if not (PEERS / name).is_dir():
            continue
        try:
            found |= make(PEERS / name)
        except Exception as error:  # whatever a foreign build raises
            print(f"{name}: left out, {error}")
    return found


if __name__ == "__main__":  # compiles them, so that a benchmark need not
    print("compiled:", ", ".join(samplers()) or "nothing")
