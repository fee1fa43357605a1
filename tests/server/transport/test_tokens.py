"""The file of tokens: what a line may be, who is found, and what no message says."""

import hashlib

import pytest

from farpoint_server.errors import SecretsUnusableError
from farpoint_server.transport.auth import TokenFile, parse_tokens

FIRST, SECOND = "a" * 32, "b" * 40
DIGEST = hashlib.sha256(SECOND.encode()).hexdigest()


@pytest.fixture
def path(tmp_path):
    path = tmp_path / "tokens"
    path.write_text(
        f"# name scopes token\n\ncamera sample {FIRST}\nops sample,admin sha256:{DIGEST}"
    )
    return path


def test_a_token_is_found_by_its_text_whether_the_file_has_it_or_its_hash(path):
    tokens = TokenFile(path)
    assert tokens.find(FIRST).name == "camera"
    assert tokens.find(SECOND).scopes == {"sample", "admin"}


@pytest.mark.parametrize(
    "shown", ["", FIRST[:-1], FIRST + "a", FIRST.upper(), DIGEST, "ä", "\udcff"]
)
def test_what_is_no_token_is_not_found(path, shown):
    assert TokenFile(path).find(shown) is None


def test_the_file_is_read_again_when_it_changes_and_kept_when_it_is_broken(path):
    tokens = TokenFile(path)
    path.write_text(f"other sample {'c' * 32}\n")
    assert tokens.find(FIRST) is None
    assert tokens.find("c" * 32).name == "other"
    path.write_text("other sample\n")
    assert tokens.find("c" * 32).name == "other"
    path.unlink()
    assert tokens.find("c" * 32).name == "other"


WRONG = {
    "two words": f"camera {FIRST}",
    "unknown scope": f"camera sample,root {FIRST}",
    "no scope": f"camera , {FIRST}",
    "short token": f"camera sample {FIRST[:31]}",
    "short hash": f"camera sample sha256:{DIGEST[:-1]}",
    "one name twice": f"camera sample {FIRST}\ncamera sample {SECOND}",
    "nothing": "# camera sample token",
}


@pytest.mark.parametrize("case", WRONG)
def test_a_wrong_line_is_an_error_that_quotes_no_token(case):
    with pytest.raises(ValueError, match="line") as caught:
        parse_tokens(WRONG[case])
    assert not any(secret[:16] in str(caught.value) for secret in (FIRST, SECOND, DIGEST))


def test_a_missing_file_keeps_the_server_from_starting(tmp_path):
    with pytest.raises(SecretsUnusableError, match=r"--tokens-file .*no-file"):
        TokenFile(tmp_path / "no-file")
