"""Resolves the setting `device` to a torch.device, and describes it."""

import os
import platform
from collections.abc import Sequence
from pathlib import Path

import torch

import farpoint_ops  # noqa: F401  registers the ops
from farpoint_server.errors import StartError

AUTO, ALL = "auto", "auto:all"


def resolve(name: str) -> torch.device:
    """The device of a name: cpu, cuda or cuda:N.

    Raises:
        StartError: this machine, torch or build of farpoint_ops has no such device.
    """
    device = torch.device(name)
    if device.type == "cpu":
        return device
    index = device.index or 0
    reason = _why_no_cuda(index)
    if reason is not None:
        raise StartError(f"--device {name}: {reason}")
    return torch.device("cuda", index)


def resolve_all(names: Sequence[str]) -> list[torch.device]:
    """The devices of the setting, each once; auto is the CPU and the first GPU, auto:all every GPU.

    Raises:
        StartError: as `resolve`.
    """
    chosen = []
    for name in names:
        if name not in (AUTO, ALL):
            chosen.append(resolve(name))
            continue
        count = torch.cuda.device_count() if _why_no_cuda(0) is None else 0
        gpus = range(count if name == ALL else min(count, 1))
        chosen += [torch.device("cpu"), *(torch.device("cuda", index) for index in gpus)]
    return [*dict.fromkeys(chosen)]


def describe(device: torch.device) -> str:
    """The name of the GPU or the processor."""
    if device.type == "cuda":
        return torch.cuda.get_device_name(device)
    return f"{_processor()}, {available_cores()} cores"


def describe_missing_code(device: torch.device) -> str:
    """The error for a GPU that none of our kernels is compiled for."""
    major, minor = torch.cuda.get_device_capability(device)
    return (
        f"farpoint_ops holds no kernels for compute capability {major}.{minor} of "
        f"{torch.cuda.get_device_name(device)}: its wheels need 8.0 or newer"
    )


def available_cores() -> int:
    """Number of cores that this process may use."""
    return len(os.sched_getaffinity(0))


def _why_no_cuda(index: int) -> str | None:
    """The reason why cuda:index cannot be used; None if it can."""
    if torch.version.cuda is None:
        return f"torch {torch.__version__} is built without CUDA"
    if not torch.cuda.is_available():
        return (
            f"torch {torch.__version__} for CUDA {torch.version.cuda} finds no GPU, or a driver "
            "that is too old for it (nvidia-smi shows both; CUDA_VISIBLE_DEVICES may hide a GPU)"
        )
    if index >= torch.cuda.device_count():
        return f"torch finds {torch.cuda.device_count()} GPUs, cuda:0 onwards"
    op = "farpoint::furthest_point_sample_ragged"
    if not torch._C._dispatch_has_kernel_for_dispatch_key(op, "CUDA"):
        return "farpoint_ops is built without its CUDA kernels (FARPOINT_CUDA=1 builds them)"
    return None


def _processor() -> str:
    path = Path("/proc/cpuinfo")
    lines = path.read_text().splitlines() if path.exists() else []
    models = (line.split(":", 1)[1].strip() for line in lines if line.startswith("model name"))
    return next(models, platform.processor() or platform.machine())
