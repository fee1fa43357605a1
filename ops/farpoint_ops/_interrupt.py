"""Ctrl-C during a long op: the kernel polls whether a signal handler has raised.

The op has released the GIL and knows nothing of Python. It calls a C function whose address it was
given; ctypes takes the GIL for it, and with that Python runs the handlers of signals that came.
"""

import atexit
import ctypes
from collections.abc import Callable, Generator
from typing import Any

import torch

_raised: list[BaseException] = []


def _checks() -> Generator[int, None, None]:
    """Returns 1 if a signal handler has raised, else 0.

    A generator, since handlers run where it resumes, inside the `try`; those of a signal that a
    function is called with run before its first line.
    """
    answer = 0
    while True:
        try:
            yield answer
            answer = 0
        except GeneratorExit:  # noqa: PERF203  each turn is a resumption
            return
        except BaseException as error:
            _raised[:] = [error]
            answer = 1


_generator = _checks()
next(_generator)
_check = ctypes.CFUNCTYPE(ctypes.c_int)(_generator.__next__)


def install() -> None:
    """Enables the polling of long ops on the main thread, until Python ends."""
    address = ctypes.cast(_check, ctypes.c_void_p).value
    torch.ops.farpoint._set_interrupt_check(address)
    atexit.register(torch.ops.farpoint._set_interrupt_check, 0)


def interruptible(op: Callable[..., Any], *arguments: object) -> Any:
    """Calls an op; raises the exception of the signal handler that ended it."""
    try:
        return op(*arguments)
    except RuntimeError as error:
        if _raised and "interrupted" in str(error):
            raise _raised.pop() from None
        raise
