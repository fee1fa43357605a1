"""PYTORCH_ALLOC_CONF: options of torch's caching allocator, set before torch is imported."""

import re
from collections.abc import Mapping, MutableMapping

NAME = "PYTORCH_ALLOC_CONF"
# Older names of the same. Parsers differ in precedence, so only one may be set.
OLD_NAMES = ("PYTORCH_CUDA_ALLOC_CONF", "PYTORCH_HIP_ALLOC_CONF")
FORBIDDEN = {
    "garbage_collection_threshold": "it frees memory in the middle of a request",
    "max_split_size_mb": "it frees memory in the middle of a request",
}
ASYNC_BACKEND = "its statistics are missing, which the memory manager reads"


class AllocatorOptionError(ValueError):
    """The environment has an allocator option that the memory manager does not support."""


def configure(environ: MutableMapping[str, str]) -> str:
    """Sets exactly one variable of `environ` for the allocator and returns its value.

    Options of the operator win over the defaults here.

    Raises:
        AllocatorOptionError: two variables are set, or a forbidden option is.
    """
    given = {name: environ.pop(name) for name in (NAME, *OLD_NAMES) if environ.get(name)}
    if len(given) > 1:
        raise AllocatorOptionError(f"set {NAME} alone, got {' and '.join(given)}")
    options = parse("".join(given.values()))
    _check(options, next(iter(given), NAME))
    chosen = {
        # At the cost of at most an eighth more memory, clouds of similar sizes share blocks.
        "roundup_power2_divisions": "8",
        "pinned_use_background_threads": "True",
    }
    environ[NAME] = ",".join(f"{key}:{value}" for key, value in {**chosen, **options}.items())
    return environ[NAME]


def parse(text: str) -> dict[str, str]:
    """Options by name; commas inside brackets belong to a value."""
    parts = re.split(r",(?![^\[]*\])", text)
    pairs = (part.strip().partition(":") for part in parts if part.strip())
    return {key.strip(): value.strip() for key, _, value in pairs}


def _check(options: Mapping[str, str], name: str) -> None:
    for option, reason in FORBIDDEN.items():
        if option in options:
            raise AllocatorOptionError(f"{name}: leave {option} unset: {reason}")
    if options.get("backend", "native").lower() != "native":
        raise AllocatorOptionError(f"{name}: leave backend native: {ASYNC_BACKEND}")
