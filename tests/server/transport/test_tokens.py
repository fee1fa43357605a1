"""Files that are read again when they change, and the file of tokens."""

import hashlib
import os

import pytest
import structlog

from farpoint_server.errors import StartError
from farpoint_server.transport.reloading import ReloadedFiles
from farpoint_server.transport.tokens import REVOKE_AFTER_S, TokenFile, parse_tokens


def number(path):
    return lambda: int(path.read_text())


def test_a_change_behind_a_link_counts(tmp_path):
    """Kubernetes replaces a mounted secret by moving such a link."""
    for name, text in (("one", "1"), ("two", "2")):
        (tmp_path / name).write_text(text)
    link = tmp_path / "link"
    link.symlink_to("one")
    watched = ReloadedFiles([link], number(link))
    link.unlink()
    link.symlink_to("two")
    assert watched.get() == 2


def test_without_a_time_the_last_good_content_stays_for_ever(tmp_path, clock):
    path = tmp_path / "file"
    path.write_text("1")
    watched = ReloadedFiles([path], number(path), None, -1)
    with structlog.testing.capture_logs() as log:
        path.unlink()
        assert watched.get() == 1
        clock.s += 1e9
        assert watched.get() == 1
    assert [(line["log_level"], "for_s" in line) for line in log] == [("warning", False)]
    path.write_text("22")
    assert watched.get() == 22


@pytest.mark.parametrize("change", ["inode", "size", "time", "second"])
def test_a_file_has_changed_by_its_inode_size_or_time(tmp_path, change):
    one, two = tmp_path / "one", tmp_path / "two"
    for path in (one, two):
        path.write_text("1")
        os.utime(path, ns=(10**18, 10**18))
    loads = []
    watched = ReloadedFiles([one, two], lambda: loads.append(1) or len(loads))
    assert [watched.get(), watched.get()] == [1, 1]
    if change == "inode":
        other = tmp_path / "other"
        other.write_text("1")
        other.replace(one)
    elif change == "size":
        one.write_text("11")
    changed = two if change == "second" else one
    moved = change in ("time", "second")
    os.utime(changed, ns=(10**18, 10**18 + moved))
    assert [watched.get(), watched.get()] == [2, 2]


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


def empty(path):
    path.write_text("")


def delete(path):
    path.unlink()


def break_(path):
    path.write_text("other sample\n")


@pytest.mark.parametrize("spoil", [empty, delete, break_])
def test_an_unusable_file_is_warned_of_and_then_opens_nothing(path, clock, spoil):
    tokens = TokenFile(path)
    camera = tokens.find(FIRST)
    with structlog.testing.capture_logs() as log:
        spoil(path)
        assert tokens.find(FIRST) is camera
        assert tokens.allows(camera, "sample")
        clock.s += REVOKE_AFTER_S - 0.1
        assert tokens.find(FIRST) is camera
        clock.s += 0.2
        assert tokens.find(FIRST) is None
        assert not tokens.allows(camera, "sample")
        path.write_text("still sample\n")
        assert tokens.find(FIRST) is None
    assert [line["log_level"] for line in log] == ["warning", "error", "warning"]
    assert [line.get("for_s") for line in log] == [REVOKE_AFTER_S, None, 0]
    path.write_text(f"camera sample {FIRST}\n")
    assert tokens.find(FIRST).name == "camera"


def test_a_file_that_is_mended_in_time_loses_no_token(path, clock):
    tokens, text = TokenFile(path), path.read_text()
    empty(path)
    assert tokens.find(FIRST)
    path.write_text(text)
    assert tokens.find(FIRST)
    clock.s += 2 * REVOKE_AFTER_S
    assert tokens.find(FIRST)


def test_a_token_that_lost_a_scope_is_not_allowed_it(path):
    tokens = TokenFile(path)
    ops = tokens.find(SECOND)
    path.write_text(f"ops sample sha256:{DIGEST}\n")
    assert tokens.allows(ops, "sample")
    assert not tokens.allows(ops, "admin")


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
    if case != "nothing":
        number = 5 if case == "one name twice" else 4
        with pytest.raises(ValueError, match=f"^line {number}: expected"):
            parse_tokens(f"# comment\n\nfirst sample {'f' * 32}\n{WRONG[case]}")


def test_a_missing_file_keeps_the_server_from_starting(tmp_path):
    with pytest.raises(StartError, match=r"--tokens-file .*no-file"):
        TokenFile(tmp_path / "no-file")


def test_digits_of_a_hash_may_be_of_either_case_and_a_comment_of_three_words():
    (token,) = parse_tokens(f"#one two three\n#\nops admin sha256:{DIGEST.upper()}\n")
    assert token.digest == bytes.fromhex(DIGEST)
