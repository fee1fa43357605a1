"""The file of bearer tokens: names, scopes and hashes, read again when it changes."""

import hashlib
import hmac
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from farpoint_server.errors import StartError
from farpoint_server.transport.reloading import ReloadedFiles
from farpoint_server.transport.sockets import reason_of

SCOPES = frozenset({"sample", "admin"})
# 128 bits in hexadecimal; anything shorter was typed by hand.
MIN_CHARACTERS = 32
DIGEST_PREFIX = "sha256:"
# An editor may empty a file for a moment; a file that stays invalid opens nothing.
REVOKE_AFTER_S = 10.0


@dataclass(frozen=True)
class Token:
    """A line of the file. The token itself is not kept, only its SHA-256."""

    name: str
    scopes: frozenset[str]
    digest: bytes


class TokenFile:
    """The tokens of a file, read again when it changes.

    A file that is emptied, deleted or broken later on ends all of its tokens REVOKE_AFTER_S after
    the warning.

    A line is ``NAME SCOPES TOKEN``: a name for the log, scopes separated by commas, and the token
    (at least 32 characters) or ``sha256:`` with its hash in hexadecimal. Empty lines and lines
    that begin with # do not count.

    Raises:
        StartError: the file cannot be read, or a line is wrong.
    """

    def __init__(self, path: Path) -> None:
        try:
            self._tokens: ReloadedFiles[Sequence[Token]] = ReloadedFiles(
                [path], lambda: parse_tokens(path.read_text()), REVOKE_AFTER_S, ()
            )
        except (OSError, ValueError) as error:
            raise StartError(f"--tokens-file {path}: {reason_of(error)}") from error

    def find(self, shown: str) -> Token | None:
        """The token of a caller, in a time that does not depend on which one it is."""
        digest = _digest(shown)
        found = None
        for token in self._tokens.get():
            if hmac.compare_digest(token.digest, digest):
                found = token
        return found

    def refresh(self) -> None:
        """Reads the file without a caller, so that its warnings come in time."""
        self._tokens.get()

    def allows(self, former: Token, scope: str) -> bool:
        """Whether a token is still in the file with the scope."""
        return any(
            token.digest == former.digest and scope in token.scopes for token in self._tokens.get()
        )


def parse_tokens(text: str) -> Sequence[Token]:
    """Tokens of a file's text; raises ValueError with the number of the first invalid line.

    No message quotes a token: it would end in the log.
    """
    tokens: dict[str, Token] = {}
    for number, line in enumerate(text.splitlines(), 1):
        words = line.split()
        if not words or words[0].startswith("#"):
            continue
        if len(words) != 3 or words[0] in tokens:
            raise ValueError(f"line {number}: expected NAME SCOPES TOKEN with a unique name")
        scopes = frozenset(words[1].split(","))
        if not scopes <= SCOPES:
            raise ValueError(f"line {number}: expected scopes of {', '.join(sorted(SCOPES))}")
        tokens[words[0]] = Token(words[0], scopes, _read_token(words[2], number))
    if not tokens:
        raise ValueError("expected at least one line NAME SCOPES TOKEN, got none")
    return tuple(tokens.values())


def _read_token(token: str, number: int) -> bytes:
    if token.startswith(DIGEST_PREFIX):
        digits = token.removeprefix(DIGEST_PREFIX)
        if not re.fullmatch(r"[0-9a-fA-F]{64}", digits):
            raise ValueError(f"line {number}: expected 64 hexadecimal digits after sha256:")
        return bytes.fromhex(digits)
    if len(token) < MIN_CHARACTERS:
        raise ValueError(f"line {number}: expected a token of {MIN_CHARACTERS} characters or more")
    return _digest(token)


def _digest(token: str) -> bytes:
    return hashlib.sha256(token.encode(errors="surrogateescape")).digest()
