"""Bindings of other projects' CUDA farthest point sampling kernels, from local checkouts.

`benchmarks/peers/pytorch_cluster` and `benchmarks/peers/pytorch3d` are checkouts of those
repositories, ignored by git; each is compiled and measured where it is present.
"""

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


def _toolkit_headers() -> list[Path]:
    """Of cuSPARSE and its like, which torch's headers ask for and a small toolkit lacks."""
    packages = Path(torch.__file__).parents[1] / "nvidia"
    return sorted(path for path in packages.glob("cu*/include") if path.is_dir())


def _compile(name: str, binding: str, kernel: Path, include: Path) -> Any:
    from torch.utils.cpp_extension import load

    build = PEERS / "build" / name
    build.mkdir(parents=True, exist_ok=True)
    source = build / "binding.cpp"
    source.write_text(binding)
    return load(
        name=f"peer_{name}",
        sources=[str(source), str(kernel)],
        extra_include_paths=[str(include), *map(str, _toolkit_headers())],
        build_directory=str(build),
    )


def _cluster(root: Path) -> Sampler:
    kernel = root / "csrc" / "cuda" / "fps_cuda.cu"
    module = _compile("pytorch_cluster", CLUSTER_BINDING, kernel, root / "csrc")

    def sample(xyz: torch.Tensor, m: int) -> Any:
        batch, n, _ = xyz.shape
        ends = torch.arange(batch + 1, device=xyz.device) * n
        ratio = torch.full((batch,), m / n, device=xyz.device)
        return module.fps(xyz.flatten(0, 1), ends, ratio, False)

    return sample


def _pytorch3d(root: Path) -> Sampler:
    sources = root / "pytorch3d" / "csrc"
    kernel = sources / "sample_farthest_points" / "sample_farthest_points.cu"
    module = _compile("pytorch3d", PYTORCH3D_BINDING, kernel, sources)

    def sample(xyz: torch.Tensor, m: int) -> Any:
        batch, n, _ = xyz.shape
        lengths, samples = (torch.full((batch,), v, device=xyz.device) for v in (n, m))
        return module.fps(xyz, lengths, samples, torch.zeros_like(lengths), m)

    return sample


MAKERS = {"pytorch_cluster": _cluster, "pytorch3d": _pytorch3d}


def samplers() -> dict[str, Sampler]:
    """The peers at hand; one that does not compile is reported and left out."""
    found: dict[str, Sampler] = {}
    for name, make in MAKERS.items():
        if not (PEERS / name).is_dir():
            continue
        try:
            found[name] = make(PEERS / name)
        except Exception as error:  # whatever a foreign build raises
            print(f"{name}: left out, {error}")
    return found


if __name__ == "__main__":  # compiles them, so that a benchmark need not
    print("compiled:", ", ".join(samplers()) or "nothing")
