"""Parses and checks addresses that a server listens on: HOST:PORT or unix:PATH."""

import ipaddress
from collections.abc import Iterable
from typing import Any


def split_commas(value: Any) -> Any:
    """Items of a text that separates them by commas; other values pass as they are."""
    return tuple(item.strip() for item in value.split(",")) if isinstance(value, str) else value


def check_addresses(addresses: Iterable[str]) -> None:
    """Raises ValueError unless each address is unix:PATH or HOST:PORT."""
    for address in addresses:
        check_address(address)


def check_address(address: str) -> None:
    """Raises ValueError unless the address is unix:PATH or HOST:PORT."""
    if is_unix(address) and len(address) > len("unix:"):
        return
    host, _, port = address.rpartition(":")
    if not host or not port.isdecimal() or int(port) > 65535:
        raise ValueError(f"expected HOST:PORT or unix:PATH, got {address!r}")


def split_host_port(address: str) -> tuple[str, int]:
    """Host without the brackets of IPv6, and port."""
    host, _, port = address.rpartition(":")
    return host.strip("[]"), int(port)


def is_unix(address: str) -> bool:
    """Whether it is a socket in the file system, which file permissions protect."""
    return address.startswith("unix:")


def is_local(address: str) -> bool:
    """Whether only this machine can reach it."""
    host = address.rpartition(":")[0].strip("[]")
    if is_unix(address) or host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
