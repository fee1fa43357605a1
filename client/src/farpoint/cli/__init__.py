"""The command `farpoint`; its modules are imported after Ctrl-C is handled."""

import gc
import os
import signal
import sys
from types import FrameType
from typing import NoReturn

_INTERRUPTED = 130


def main() -> None:
    """Entry point of the command."""
    if signal.getsignal(signal.SIGINT) is not signal.SIG_IGN:  # as of a job in the background
        signal.signal(signal.SIGINT, _leave)
    gc.set_threshold(100_000)  # imports make many objects, all of which stay
    from farpoint.cli.app import main as run

    if signal.getsignal(signal.SIGINT) is _leave:
        signal.signal(signal.SIGINT, _interrupt)
    try:
        code = run(sys.argv[1:])
        sys.stdout.flush()
        sys.exit(code)
    except KeyboardInterrupt:
        _leave()
    except BrokenPipeError:
        # The reader of a pipe has seen enough; Python would complain again on its way out.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(1)


def _interrupt(_number: int, _frame: FrameType | None) -> NoReturn:
    """Ends the command after its clean-up; another Ctrl-C does not wait for that."""
    signal.signal(signal.SIGINT, _leave)
    raise KeyboardInterrupt


def _leave(_number: int = 0, _frame: FrameType | None = None) -> NoReturn:
    os.write(2, b"farpoint: interrupted\n")
    os._exit(_INTERRUPTED)
