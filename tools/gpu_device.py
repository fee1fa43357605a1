"""Prints the CUDA device that `make gpu-check` would use, or what is missing.

With --kernels: whether the ops that were built hold the CUDA kernels.
"""

import sys

try:
    import torch
except ModuleNotFoundError:
    sys.exit("gpu-check: this python3 has no torch")
if not torch.cuda.is_available():
    sys.exit("gpu-check: this python3 has no torch that sees a CUDA device")
if "--kernels" not in sys.argv:
    major, minor = torch.cuda.get_device_capability()
    name = torch.cuda.get_device_name()
    print(f"torch {torch.__version__}, CUDA {torch.version.cuda}, {name}, sm_{major}{minor}")
else:
    import farpoint_ops  # noqa: F401

    if not torch._C._dispatch_has_kernel_for_dispatch_key("farpoint::gather_points", "CUDA"):
        sys.exit("gpu-check: the ops have no CUDA kernels: is nvcc on PATH or in CUDA_HOME?")
    print("the ops hold CUDA kernels")
