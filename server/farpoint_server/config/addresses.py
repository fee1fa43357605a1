"""Addresses that a server listens on, HOST:PORT or unix:PATH: parsing, checks and setting types."""

import ipaddress
from typing import Annotated, Any, TypeAlias

from pydantic import AfterValidator, BeforeValidator
from pydantic_settings import NoDecode


def split_commas(value: Any) -> Any:
    """Items of a text separated by commas, also within a repeated flag; other values unchanged."""
    parts = [value] if isinstance(value, str) else value
    if not isinstance(parts, list | tuple) or not all(isinstance(part, str) for part in parts):
        return value
    return tuple(item.strip() for part in parts for item in part.split(","))


def check_address(address: str) -> str:
    """The address; raises ValueError unless it is unix:PATH or HOST:PORT."""
    if not is_unix(address):
        return _check_host_port(address, "HOST:PORT or unix:PATH")
    return _check_unix(address, "HOST:PORT or unix:PATH")


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


def _check_host_port(address: str, expected: str = "HOST:PORT") -> str:
    host, _, port = address.rpartition(":")
    if is_unix(address) or not host or not port.isdecimal() or int(port) > 65535:
        raise ValueError(f"expected {expected}, got {address!r}")
    return address


def _check_unix(address: str, expected: str = "unix:PATH") -> str:
    if not is_unix(address) or address == "unix:":
        raise ValueError(f"expected {expected}, got {address!r}")
    return address


HostPort: TypeAlias = Annotated[str, AfterValidator(lambda value: _check_host_port(value))]
UnixPath: TypeAlias = Annotated[str, AfterValidator(lambda value: _check_unix(value))]
Addresses: TypeAlias = Annotated[
    tuple[Annotated[str, AfterValidator(check_address)], ...],
    NoDecode,
    BeforeValidator(split_commas),
]
