"""HTTP proxies of the environment, which gRPC uses for every TCP target unless told otherwise."""

import os
import re
from ipaddress import ip_address
from urllib.parse import unquote

SOCKETS = ("unix:", "unix-abstract:", "vsock:")
_RESOLVER = re.compile(r"[A-Za-z][\w+.-]*:(?!\d+$)(//[^/]*/)?")
_HOST = re.compile(r"\[(.*)\](:\d+)?|(.*?)(:\d+)?")
_PROXIES = ("grpc_proxy", "https_proxy", "http_proxy")
_VARIABLES = (*_PROXIES, "no_grpc_proxy", "no_proxy")


def is_local(target: str) -> bool:
    """Whether every server of a target is on this machine: at a loopback address or a socket."""
    return target.startswith(SOCKETS) or all(map(_is_loopback, target.split(",")))


def is_direct(target: str) -> bool:
    """Whether no proxy is used; gRPC cannot send several addresses through one."""
    return is_local(target) or "," in target


def describe_proxies(target: str) -> str:
    """The variables that may send calls to a target through a proxy, for errors; or nothing."""
    found = {name: value for name, value in os.environ.items() if name.lower() in _VARIABLES}
    if is_direct(target) or not any(name.lower() in _PROXIES for name in found):
        return ""
    listed = ", ".join(f"{name}={_without_password(value)}" for name, value in found.items())
    case = "" if all(map(str.islower, found)) else " (gRPC reads lower case names)"
    return f"; the environment sets {listed}{case}"


def _without_password(url: str) -> str:
    return url.rpartition("@")[2] if "@" in url else url


def _is_loopback(server: str) -> bool:
    match = _HOST.fullmatch(unquote(_RESOLVER.sub("", server.strip(), count=1)))
    host = "" if match is None else (match[1] or match[3] or "").lower().removesuffix(".")
    try:
        address = ip_address(host)
    except ValueError:
        return host == "localhost" or host.endswith(".localhost")
    address = getattr(address, "ipv4_mapped", None) or address
    return address.is_loopback
