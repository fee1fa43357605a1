"""Requests of NVIDIA's own client, for tests that skip where it is not installed."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

triton = pytest.importorskip("tritonclient.grpc", reason="tritonclient[grpc] is not installed")

CLOUD = np.random.default_rng(6).normal(size=(2, 300, 3)).astype(np.float32)


def tensor(name: str, array: np.ndarray) -> Any:
    """An input with the data of an array in the message."""
    made = triton.InferInput(name, array.shape, datatype_of(array))
    made.set_data_from_numpy(array)
    return made


def datatype_of(array: np.ndarray) -> str:
    """The protocol's name of an array's elements."""
    kinds = {"f": "FP", "i": "INT", "u": "UINT"}
    return "BOOL" if array.dtype == bool else f"{kinds[array.dtype.kind]}{array.itemsize * 8}"


def fps_inputs(cloud: np.ndarray = CLOUD, count: int = 20, **others: np.ndarray) -> list[Any]:
    """Inputs of the model `fps`."""
    named = {"points": cloud, "sample_count": np.array([count]), **others}
    return [tensor(name, array) for name, array in named.items()]


def refusal(call: Callable[[], object]) -> tuple[str, str]:
    """Status and text of a call that has to fail."""
    with pytest.raises(triton.InferenceServerException) as caught:
        call()
    return caught.value.status(), caught.value.message()
