"""Prints the CUDA device that `make gpu-check` would use, or what is missing.

With --kernels: whether the ops that were built hold the CUDA kernels.
"""

import sys


def find_device() -> str:
    try:
        import torch
    except ModuleNotFoundError:
        raise SystemExit("gpu-check: this python3 has no torch") from None
    if not torch.cuda.is_available():
        raise SystemExit("gpu-check: this python3 has no torch that sees a CUDA device")
    major, minor = torch.cuda.get_device_capability()
    name = torch.cuda.get_device_name()
    return f"torch {torch.__version__}, CUDA {torch.version.cuda}, {name}, sm_{major}{minor}"


def find_kernels() -> str:
    import torch

    import farpoint_ops  # noqa: F401

    if not torch._C._dispatch_has_kernel_for_dispatch_key("farpoint::gather_points", "CUDA"):
        raise SystemExit(
            "gpu-check: the ops were built without CUDA kernels: is nvcc on PATH or in CUDA_HOME?"
        )
    return "the ops hold CUDA kernels"


if __name__ == "__main__":
    print(find_kernels() if "--kernels" in sys.argv else find_device())
