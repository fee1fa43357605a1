"""Listening on Unix sockets that other servers may have, and why an address cannot be bound."""


def reason_of(error: Exception) -> str:
    """Why an address cannot be bound, in the system's words, without Python's additions."""
    said = getattr(error, "strerror", None) or str(error)
    return said.partition(" (while attempting")[0]
