"""The sampling service: gRPC in front of farpoint_ops.

docs/architecture.md follows a request through the packages.
"""

import os
from importlib import metadata

# Read when grpc is loaded. It would write a line past our log for each handshake that fails and for
# each compressed message that is refused, so any peer could fill the log with lines that are not
# JSON. What keeps the server from starting is an error of ours too.
os.environ.setdefault("GRPC_VERBOSITY", "NONE")


def version() -> str:
    """Version of the installed distribution; "unknown" when run from source alone."""
    try:
        return metadata.version("farpoint-server")
    except metadata.PackageNotFoundError:
        return "unknown"
