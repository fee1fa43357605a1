"""The command `farpoint`."""

import gc
import io
import os
import sys


def main() -> None:
    """Entry point of the command."""
    os.environ.setdefault("GRPC_VERBOSITY", "NONE")  # a failure is one line
    gc.set_threshold(100_000)  # imports make many objects, all of which stay
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="surrogateescape")  # names of files are any bytes
    try:
        from farpoint.cli.app import main as run

        code = run(sys.argv[1:])
        sys.stdout.flush()
        sys.exit(code)
    except KeyboardInterrupt:
        os.write(2, b"farpoint: interrupted\n")
        os._exit(130)
    except BrokenPipeError:
        # The reader of a pipe has seen enough; Python would complain again on its way out.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(1)
