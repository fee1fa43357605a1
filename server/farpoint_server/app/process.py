"""The life of the process: starts the server, serves until a signal, drains."""

import asyncio
import gc
import signal

import structlog

from farpoint_server.app.server import App
from farpoint_server.config.settings import Settings
from farpoint_server.errors import DeviceFailedError
from farpoint_server.processes.link import Link
from farpoint_server.processes.place import Place

# What was refused while draining is not waited for by itself; its answer leaves in this time.
REFUSAL_S = 0.1
log = structlog.get_logger("farpoint")


async def serve(settings: Settings, place: Place) -> bool:
    """Serves until a signal of `_signals`; returns whether every accepted call was answered.

    Args:
        settings: Of this process.
        place: Among the processes of the server.

    Raises:
        StartError: the settings do not fit this machine.
        DeviceFailedError: a device, the scheduler or the memory monitor works no more in this
            process.
    """
    signals = _signals()
    app = App(settings, place)
    link = None if place.is_alone else Link(place.link, lambda: app.is_serving)
    if link is None:
        log.info("ready", **await app.start())
    else:
        link.start()
        link.ready(await app.start(link.warm))
    # What torch and the libraries have made by now stays, and is not looked through ever again.
    gc.collect()
    gc.freeze()
    told, lost = asyncio.ensure_future(signals.get()), asyncio.ensure_future(app.lost())
    await asyncio.wait((told, lost), return_when=asyncio.FIRST_COMPLETED)
    if not told.done():
        reason = lost.result()
        log.error(reason, exit_status=3)
        await app.stop(REFUSAL_S)
        raise DeviceFailedError(reason)
    lost.cancel()
    drained = asyncio.ensure_future(app.drain())
    again = asyncio.ensure_future(signals.get())
    await asyncio.wait((drained, again), return_when=asyncio.FIRST_COMPLETED)
    again.cancel()
    complete = drained.done() and drained.result()
    drained.cancel()
    return await app.stop(REFUSAL_S if complete else 0)


def _signals() -> asyncio.Queue[signal.Signals]:
    """Where each SIGTERM, SIGINT and SIGHUP arrives; nohup's wish to ignore the last is kept."""
    queue: asyncio.Queue[signal.Signals] = asyncio.Queue()
    numbers = [signal.SIGTERM, signal.SIGINT]
    if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:
        numbers.append(signal.SIGHUP)
    for number in numbers:
        asyncio.get_running_loop().add_signal_handler(number, queue.put_nowait, number)
    return queue
