"""The `farpoint-server` command: settings, allocators, log, then serving; exit statuses."""

import asyncio
import contextlib
import gc
import os
import sys
from collections.abc import Callable, Coroutine
from typing import Any, NoReturn, TextIO

import structlog

from farpoint_server.compute.memory import environment, host
from farpoint_server.config import cli
from farpoint_server.config.settings import Settings
from farpoint_server.errors import DeviceFailedError, StartError
from farpoint_server.observability import logging
from farpoint_server.processes import slot
from farpoint_server.processes.supervisor import supervise


def main() -> None:
    """Serves until a signal.

    Exit status: 0 drained, 1 calls were cut off, 2 cannot start, 3 the device failed for good,
    or a task did that the server cannot do without.
    """
    given = slot.from_environment()
    own, settings = given or (slot.ProcessSlot(), cli.parse())
    if given is not None:
        slot.end_with_parent(own.parent)
    if sys.stderr is None:
        # The next file to be opened would become standard error.
        _refuse("standard error is closed, where the log goes: use 2>/dev/null", sys.stdout)
    is_supervisor = given is None and settings.process_count > 1
    try:
        chosen = {} if is_supervisor else _settle_libraries(settings)
        fields: dict[str, Any] = {} if own.is_alone else {"process": own.name}
        logging.configure(settings, **fields)
        if chosen:
            structlog.get_logger("farpoint").info("allocator", **chosen)
        if given is None and (unknown := cli.unknown_variables(os.environ)):
            structlog.get_logger("farpoint").warning("unknown settings", variables=unknown)
        if is_supervisor:
            status = supervise(settings)
        else:
            status = 0 if asyncio.run(_load(own)(settings, own)) else 1
    except (ImportError, StartError, environment.AllocatorOptionError) as error:
        logging.close()
        _refuse(str(error), sys.stderr)
    except DeviceFailedError:
        logging.close()
        os._exit(3)
    logging.close()
    # A kernel whose caller left cannot be interrupted, and a normal exit would wait for it.
    os._exit(status)


def _load(
    own: slot.ProcessSlot,
) -> Callable[[Settings, slot.ProcessSlot], Coroutine[Any, Any, bool]]:
    """What serves in this process, with torch."""
    gc.disable()  # torch takes a second to load, with the collector a tenth more
    if own.is_engine:
        from farpoint_server.app.engine import serve_engine as serve
    else:
        from farpoint_server.app.server import serve
    # Objects of torch and other libraries stay: the collector need not traverse them again.
    gc.collect()
    gc.freeze()
    gc.enable()
    return serve


def _refuse(reason: str, to: TextIO | None) -> NoReturn:
    """Exits because the server cannot start, with one line if the output is open."""
    with contextlib.suppress(OSError):
        print(f"farpoint-server: {reason}", file=to, flush=True)
    # A normal exit aborts if an engine's thread is within torch.
    os._exit(2)


def _settle_libraries(settings: Settings) -> dict[str, object]:
    """Sets options that are read only once: before torch is loaded and before a thread starts."""
    # A thread that spins at the end of an op keeps the one that it waits for from a core: with
    # another process on two cores a call took 600 ms instead of 26.
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    malloc = host.detect()
    chosen: dict[str, object] = {"malloc": malloc.name, "heap": malloc.set_options(os.environ)}
    if set(settings.device) != {"cpu"}:
        chosen["torch"] = environment.configure(os.environ)
    return chosen


if __name__ == "__main__":
    main()
